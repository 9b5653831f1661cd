//! Holds bytes in transit until they are due.

use std::collections::VecDeque;

use plimsoll_measure::clock::Instant;

/// The limit of bytes in transit, for each connection and direction; above it reading stops.
pub const QUEUE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// The limit of chunks in transit, for each connection and direction; above it reading stops.
const CHUNKS_MAX: usize = 256 * 1024;
/// An empty queue keeps at most this many bytes of memory.
const IDLE_BYTES_MAX: usize = 256 * 1024;

/// A due time before every clock reading.
pub(super) const AT_ONCE: Instant = Instant::from_ns(0);

/// Bytes that wait to be delivered, in order: nothing overtakes an earlier chunk, even a chunk that is due
/// later.
#[derive(Debug, Default)]
pub(super) struct Queue {
    bytes: VecDeque<u8>,
    chunks: VecDeque<Chunk>,
}

/// Bytes with one due time; length 0 marks the end of the stream.
#[derive(Debug)]
struct Chunk {
    due: Instant,
    len: usize,
}

/// The head of a queue.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Head<'a> {
    /// The queue is empty.
    Empty,
    /// The first chunk is due later.
    Later(Instant),
    /// Bytes that are due.
    Due(&'a [u8]),
    /// The end of the stream is due.
    End,
}

impl Queue {
    /// The number of bytes that still fit.
    pub(super) fn room(&self) -> usize {
        if self.chunks.len() < CHUNKS_MAX { QUEUE_BYTES_MAX.saturating_sub(self.bytes.len()) } else { 0 }
    }

    pub(super) fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Appends bytes that are due at a moment, or after all earlier bytes if that is later.
    pub(super) fn push(&mut self, bytes: &[u8], due: Instant) {
        if !bytes.is_empty() {
            self.bytes.extend(bytes);
            self.mark(bytes.len(), due);
        }
    }

    /// Appends the end of the stream.
    pub(super) fn end(&mut self, due: Instant) {
        self.mark(0, due);
    }

    /// The state of the first chunk at `now`.
    pub(super) fn head(&self, now: Instant) -> Head<'_> {
        match self.chunks.front() {
            None => Head::Empty,
            Some(chunk) if chunk.due > now => Head::Later(chunk.due),
            Some(Chunk { len: 0, .. }) => Head::End,
            Some(chunk) => {
                let (first, _) = self.bytes.as_slices();
                Head::Due(&first[..chunk.len.min(first.len())])
            }
        }
    }

    /// Removes delivered bytes of [`Head::Due`]; 0 removes [`Head::End`].
    pub(super) fn delivered(&mut self, len: usize) {
        let Some(chunk) = self.chunks.front_mut() else { return };
        assert!(len <= chunk.len, "only the first chunk was shown");
        chunk.len -= len;
        self.bytes.drain(..len);
        if chunk.len == 0 {
            self.chunks.pop_front();
        }
        if self.chunks.is_empty() && self.bytes.capacity() > IDLE_BYTES_MAX {
            *self = Queue::default();
        }
    }

    /// Makes all bytes due at once.
    pub(super) fn hasten(&mut self) {
        self.chunks.iter_mut().for_each(|chunk| chunk.due = AT_ONCE);
    }

    fn mark(&mut self, len: usize, due: Instant) {
        match self.chunks.back_mut() {
            Some(last) if last.due >= due && len > 0 => last.len += len,
            Some(last) => {
                let due = due.max(last.due);
                self.chunks.push_back(Chunk { due, len });
            }
            None => self.chunks.push_back(Chunk { due, len }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ns: u64) -> Instant {
        Instant::from_ns(ns)
    }

    /// Takes all bytes that are due, at most `most` at a time.
    fn take(queue: &mut Queue, now: Instant, most: usize) -> Vec<u8> {
        let mut taken = Vec::new();
        while let Head::Due(bytes) = queue.head(now) {
            let len = bytes.len().min(most);
            taken.extend_from_slice(&bytes[..len]);
            queue.delivered(len);
        }
        taken
    }

    #[test]
    fn nothing_comes_early_nothing_overtakes_and_the_end_comes_last() {
        let mut queue = Queue::default();
        queue.push(b"ab", at(10));
        queue.push(b"cd", at(5));
        queue.push(b"ef", at(20));
        queue.end(at(7));
        assert_eq!(queue.head(at(9)), Head::Later(at(10)));
        assert_eq!(take(&mut queue, at(10), 1), b"abcd");
        assert_eq!(queue.head(at(19)), Head::Later(at(20)));
        assert_eq!(take(&mut queue, at(20), 9), b"ef");
        assert_eq!(queue.head(at(20)), Head::End);
        queue.delivered(0);
        assert_eq!((queue.head(at(99)), queue.is_empty()), (Head::Empty, true));
    }

    #[test]
    fn hastened_bytes_are_due_at_once_and_in_order() {
        let mut queue = Queue::default();
        queue.push(b"a", at(10));
        queue.push(b"b", at(20));
        queue.hasten();
        queue.push(b"c", AT_ONCE);
        assert_eq!(take(&mut queue, at(0), 9), b"abc");
    }

    #[test]
    fn a_full_queue_has_no_room_and_an_empty_one_keeps_little_memory() {
        let mut queue = Queue::default();
        queue.push(&vec![0; QUEUE_BYTES_MAX - 1], at(1));
        assert_eq!(queue.room(), 1);
        queue.push(b"a", at(2));
        assert_eq!(queue.room(), 0);
        take(&mut queue, at(2), usize::MAX);
        assert!(queue.bytes.capacity() <= IDLE_BYTES_MAX);
        (0..CHUNKS_MAX as u64).for_each(|due| queue.push(b"a", at(due)));
        assert_eq!(queue.room(), 0);
    }

    proptest! {
        #[test]
        fn every_byte_comes_out_once_in_order_and_when_it_is_due(
            pushes in proptest::collection::vec((1_usize..50, 0_u64..100), 0..40),
            most in 1_usize..60,
        ) {
            let mut queue = Queue::default();
            let (mut sent, mut due, mut byte) = (Vec::new(), 0, 0_u8);
            for (len, delay) in pushes {
                let bytes: Vec<u8> = (0..len).map(|_| { byte = byte.wrapping_add(1); byte }).collect();
                queue.push(&bytes, at(delay));
                due = due.max(delay);
                sent.extend(bytes.into_iter().map(|byte| (byte, due)));
            }
            for now in 0..100 {
                let taken = take(&mut queue, at(now), most);
                let expected: Vec<u8> = sent.iter().filter(|(_, due)| *due == now).map(|(byte, _)| *byte).collect();
                prop_assert_eq!(taken, expected);
            }
            prop_assert!(queue.is_empty() && queue.len_bytes() == 0);
        }
    }
}
