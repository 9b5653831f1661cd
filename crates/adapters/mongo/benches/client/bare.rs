//! Measures the lower bound: a blocking socket sends one frame in which only the `_id`s change.

use std::io::{Read, Write};
use std::net::TcpStream;

use bson::{RawDocument, rawdoc};
use plimsoll_wire::{Address, frame};

use crate::Failure;
use crate::client::{Client, Insert};
use crate::document::{DATABASE, Maker};
use crate::workload::Order;

/// The offset of a reply's body: after the header, the flags and the kind of the section.
const BODY_AT: usize = 16 + 4 + 1;

/// A socket with its buffers.
pub(crate) struct Bare {
    stream: TcpStream,
    maker: Maker,
    frame: Frame,
    reply: Vec<u8>,
}

/// A whole insert command.
#[derive(Default)]
struct Frame {
    bytes: Vec<u8>,
    /// The offsets of its documents.
    places: Vec<usize>,
}

impl Bare {
    /// Connects; no greeting is needed.
    pub(crate) fn connect(address: &Address) -> Result<Self, Failure> {
        let stream = TcpStream::connect((address.host.as_str(), address.port))?;
        stream.set_nodelay(true)?;
        Ok(Bare { stream, maker: Maker::new()?, frame: Frame::default(), reply: vec![0; 16 * 1024] })
    }

    fn exchange(&mut self, documents: u32) -> Result<(), Failure> {
        self.stream.write_all(&self.frame.bytes)?;
        let len = self.stream.read(&mut self.reply)?;
        let reply = &self.reply[..len];
        if frame::claimed_len(reply, self.reply.len())? != Some(len) {
            return Err("a reply came in parts".into());
        }
        let body = RawDocument::from_bytes(&reply[BODY_AT..])?;
        if body.get_i32("n")?.cast_unsigned() != documents {
            return Err(format!("not acknowledged: {body:?}").into());
        }
        Ok(())
    }
}

impl Insert for Bare {
    fn insert(&mut self, order: Order) -> Result<(), Failure> {
        if self.frame.places.len() != order.documents as usize {
            self.frame = Frame::of(order.documents, &mut self.maker)?;
        }
        for _ in 0..order.commands {
            for &place in &self.frame.places {
                self.maker.renew(&mut self.frame.bytes[place..]);
            }
            self.exchange(order.documents)?;
        }
        Ok(())
    }
}

impl Frame {
    fn of(documents: u32, maker: &mut Maker) -> Result<Self, Failure> {
        let (mut bytes, mut places) = (Vec::new(), Vec::new());
        let message = frame::start(&mut bytes, 1, 0, 0);
        let body = rawdoc! {"insert": Client::Bare.name(), "ordered": true, "$db": DATABASE};
        bytes.extend_from_slice(body.as_bytes());
        bytes.push(1);
        let section = bytes.len();
        bytes.extend_from_slice(b"\0\0\0\0documents\0");
        for _ in 0..documents {
            places.push(bytes.len());
            bytes.extend_from_slice(maker.next());
        }
        let len = u32::try_from(bytes.len() - section)?;
        bytes[section..section + 4].copy_from_slice(&len.to_le_bytes());
        frame::finish(&mut bytes, message);
        Ok(Frame { bytes, places })
    }
}
