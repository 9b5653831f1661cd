//! Builds the address of the service and the limits of its connections.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use plimsoll_net::{Tls, Trust};

use super::{Error, Url};
use crate::scenario::{self, Limits, Protocol, Section};

/// The maximum number of streams of one HTTP/2 connection.
const STREAMS_MAX: u32 = 10_000;

/// The address of the service and the limits of its connections.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub url: Url,
    /// Replaces the address of the URL; host and certificate stay those of the URL.
    pub address: Option<SocketAddr>,
    pub tls: Option<Tls>,
    pub protocol: Protocol,
    pub connect_timeout: Duration,
    pub timeout: Duration,
    pub answer_bytes_max: u64,
    pub requests_max: u64,
    pub streams_max: usize,
}

impl Endpoint {
    /// Checks every number, and reads the CA file, whose path is relative to `base`.
    pub(super) fn build(section: &Section, url: Url, base: &Path) -> Result<Self, Error> {
        let limits = section.limits;
        check(section, &limits)?;
        Ok(Self {
            tls: tls(&section.tls, &url, section.protocol, base)?,
            url,
            address: None,
            protocol: section.protocol,
            connect_timeout: Duration::from_nanos(limits.connect_timeout.as_ns()),
            timeout: Duration::from_nanos(section.timeout.as_ns()),
            answer_bytes_max: limits.answer.get(),
            requests_max: limits.requests_per_connection.unwrap_or(u64::MAX),
            streams_max: limits.streams_per_connection as usize,
        })
    }
}

fn check(section: &Section, limits: &Limits) -> Result<(), Error> {
    let bounded = |name, ok: bool, remedy| if ok { Ok(()) } else { Err(Error::Limit { name, remedy }) };
    let requests = limits.requests_per_connection;
    let counted = requests.is_none() || section.protocol == Protocol::Http1;
    let streams = (1..=STREAMS_MAX).contains(&limits.streams_per_connection);
    bounded("timeout", section.timeout.as_ns() > 0, "give a time over 0")?;
    bounded("limits.connect_timeout", limits.connect_timeout.as_ns() > 0, "give a time over 0")?;
    bounded("limits.requests_per_connection", requests != Some(0), "give a number over 0")?;
    bounded(
        "limits.requests_per_connection",
        counted,
        "HTTP/2 does not support it; use `protocol: http1`, or leave it out",
    )?;
    bounded("limits.streams_per_connection", streams, "give a number from 1 to 10000")
}

fn tls(typed: &scenario::Tls, url: &Url, protocol: Protocol, base: &Path) -> Result<Option<Tls>, Error> {
    if !url.secure {
        let is_said = typed.insecure || typed.ca.is_some();
        return if is_said { Err(Error::TlsWithoutHttps) } else { Ok(None) };
    }
    if typed.insecure && typed.ca.is_some() {
        return Err(Error::InsecureAuthority);
    }
    let trust = match &typed.ca {
        Some(path) => Trust::Authorities(
            std::fs::read(base.join(path))
                .map_err(|source| Error::Authority { path: path.clone(), source })?,
        ),
        None if typed.insecure => Trust::Anyone,
        None => Trust::PublicRoots,
    };
    let tls = Tls::new(&trust).map_err(|error| Error::Tls(error.to_string()))?;
    Ok(Some(tls.offering(protocol.alpn())))
}
