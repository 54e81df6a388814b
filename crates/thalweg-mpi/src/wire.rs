//! The format of packets: records, one after the other, in little-endian order.
//!
//! Each record begins with a byte for its kind. A packet holds whole records only. Both ends are the same program, so
//! there is no version; bytes that are no record are reported as the loss of their sender.
//!
//! | kind | fields | meaning |
//! | --- | --- | --- |
//! | eager | number, check, length, bytes | a region's bytes |
//! | bulk | number, check, length, tag | the region's bytes follow by the transport, under this tag |
//! | poison | number, check, failure | the region has no value |
//! | credit | bytes | this many bytes of eager records have been used by their receiver |
//! | enter | collective, submission, hash, place | the sender has reached a collective call |
//! | done | collective, failures | the sender's tasks have ended |
//! | result | collective, failures | the failures of all ranks |
//! | mismatch | text | the sender has found that programs differ |
//! | ask | | the receiver must send its log |
//! | log | entries | the submissions that the sender remembers |
//! | broken | reason | no rank can continue |
//! | bye | | the sender has ended, and sends at most answers with its time |
//! | ask time | asked | the receiver must answer with its time |
//! | time | asked, time | the sender's time, in answer to the question of the time `asked` |

use crate::error::{Broken, Failure};

/// An entry of the log of submissions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) index: u64,
    /// Of all submissions up to this one.
    pub(crate) hash: u64,
    pub(crate) name: String,
    pub(crate) place: String,
}

/// One record of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Record {
    Eager { number: u64, check: u64, bytes: Vec<u8> },
    Bulk { number: u64, check: u64, len: u64, tag: u32 },
    Poison { number: u64, check: u64, failure: Failure },
    Credit { bytes: u64 },
    Enter { collective: u64, index: u64, hash: u64, place: String },
    Done { collective: u64, failures: Vec<Failure> },
    Result { collective: u64, failures: Vec<Failure> },
    Mismatch { text: String },
    Ask,
    Log { entries: Vec<Entry> },
    Broken(Broken),
    Bye,
    AskTime { asked: u64 },
    Time { asked: u64, time: u64 },
}

/// Appends numbers and texts to a packet.
pub(crate) struct Writer<'a>(pub(crate) &'a mut Vec<u8>);

impl Writer<'_> {
    fn number(&mut self, number: u64) -> &mut Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    fn failure(&mut self, failure: &Failure) -> &mut Self {
        self.number(failure.index).number(u64::from(failure.rank));
        self.text(&failure.name).text(&failure.place).text(&failure.reason)
    }

    fn failures(&mut self, failures: &[Failure]) -> &mut Self {
        self.number(failures.len() as u64);
        failures.iter().for_each(|failure| _ = self.failure(failure));
        self
    }

    fn kind(&mut self, kind: u8) -> &mut Self {
        self.0.push(kind);
        self
    }

    /// Appends an eager record without a copy of its bytes in between.
    pub(crate) fn eager(&mut self, number: u64, check: u64, bytes: &[u8]) -> &mut Self {
        self.kind(0).number(number).number(check).number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn record(&mut self, record: &Record) {
        match record {
            Record::Eager { number, check, bytes } => self.eager(*number, *check, bytes),
            Record::Bulk { number, check, len, tag } => {
                self.kind(1).number(*number).number(*check).number(*len).number(u64::from(*tag))
            }
            Record::Poison { number, check, failure } => self.kind(2).number(*number).number(*check).failure(failure),
            Record::Credit { bytes } => self.kind(3).number(*bytes),
            Record::Enter { collective, index, hash, place } => {
                self.kind(4).number(*collective).number(*index).number(*hash).text(place)
            }
            Record::Done { collective, failures } => self.kind(5).number(*collective).failures(failures),
            Record::Result { collective, failures } => self.kind(6).number(*collective).failures(failures),
            Record::Mismatch { text } => self.kind(7).text(text),
            Record::Ask => self.kind(8),
            Record::Log { entries } => {
                self.kind(9).number(entries.len() as u64);
                for entry in entries {
                    self.number(entry.index).number(entry.hash).text(&entry.name).text(&entry.place);
                }
                self
            }
            Record::Broken(Broken::Lost { rank, reason }) => self.kind(10).number(*rank as u64).text(reason),
            Record::Broken(Broken::Diverged(text)) => self.kind(11).text(text),
            Record::Bye => self.kind(12),
            Record::AskTime { asked } => self.kind(13).number(*asked),
            Record::Time { asked, time } => self.kind(14).number(*asked).number(*time),
        };
    }
}

/// Reads the records of a packet; ends after the first that is cut off or unknown, which [`Reader::failed`] tells.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    failed: bool,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(packet: &'a [u8]) -> Self {
        Self { rest: packet, failed: false }
    }

    /// Whether the packet contains bytes that are no record.
    pub(crate) fn failed(&self) -> bool {
        self.failed
    }

    fn take(&mut self, len: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(len).ok()?)?;
        self.rest = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn text(&mut self) -> Option<String> {
        let len = self.number()?;
        Some(String::from_utf8_lossy(self.take(len)?).into_owned())
    }

    fn failure(&mut self) -> Option<Failure> {
        let (index, rank) = (self.number()?, u32::try_from(self.number()?).ok()?);
        Some(Failure { index, rank, name: self.text()?, place: self.text()?, reason: self.text()? })
    }

    fn failures(&mut self) -> Option<Vec<Failure>> {
        (0..self.number()?).map(|_| self.failure()).collect()
    }

    fn entry(&mut self) -> Option<Entry> {
        Some(Entry { index: self.number()?, hash: self.number()?, name: self.text()?, place: self.text()? })
    }

    fn record(&mut self) -> Option<Record> {
        Some(match self.take(1)?[0] {
            0 => {
                let (number, check, len) = (self.number()?, self.number()?, self.number()?);
                Record::Eager { number, check, bytes: self.take(len)?.to_vec() }
            }
            1 => {
                let (number, check, len) = (self.number()?, self.number()?, self.number()?);
                Record::Bulk { number, check, len, tag: u32::try_from(self.number()?).ok()? }
            }
            2 => Record::Poison { number: self.number()?, check: self.number()?, failure: self.failure()? },
            3 => Record::Credit { bytes: self.number()? },
            4 => {
                let (collective, index, hash) = (self.number()?, self.number()?, self.number()?);
                Record::Enter { collective, index, hash, place: self.text()? }
            }
            5 => Record::Done { collective: self.number()?, failures: self.failures()? },
            6 => Record::Result { collective: self.number()?, failures: self.failures()? },
            7 => Record::Mismatch { text: self.text()? },
            8 => Record::Ask,
            9 => Record::Log { entries: (0..self.number()?).map(|_| self.entry()).collect::<Option<_>>()? },
            10 => Record::Broken(Broken::Lost { rank: usize::try_from(self.number()?).ok()?, reason: self.text()? }),
            11 => Record::Broken(Broken::Diverged(self.text()?)),
            12 => Record::Bye,
            13 => Record::AskTime { asked: self.number()? },
            14 => Record::Time { asked: self.number()?, time: self.number()? },
            _ => return None,
        })
    }
}

impl Iterator for Reader<'_> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        if self.rest.is_empty() || self.failed {
            return None;
        }
        let record = self.record();
        self.failed = record.is_none();
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Record> {
        let failure =
            Failure { index: 7, rank: 2, name: "t".into(), place: "a.rs:1:2".into(), reason: "panicked: é".into() };
        vec![
            Record::Eager { number: 1, check: 2, bytes: vec![1, 2, 3] },
            Record::Eager { number: 1, check: 2, bytes: Vec::new() },
            Record::Bulk { number: u64::MAX, check: 4, len: 1 << 40, tag: u32::MAX },
            Record::Poison { number: 1, check: 2, failure: failure.clone() },
            Record::Credit { bytes: 9 },
            Record::Enter { collective: 1, index: 2, hash: 3, place: "p".into() },
            Record::Done { collective: 1, failures: vec![failure.clone(), failure.clone()] },
            Record::Result { collective: 1, failures: Vec::new() },
            Record::Mismatch { text: String::new() },
            Record::Ask,
            Record::Log { entries: vec![Entry { index: 1, hash: 2, name: "n".into(), place: "p".into() }] },
            Record::Broken(Broken::Lost { rank: 3, reason: "r".into() }),
            Record::Broken(Broken::Diverged("d".into())),
            Record::Bye,
            Record::AskTime { asked: 5 },
            Record::Time { asked: 5, time: u64::MAX },
        ]
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        let mut packet = Vec::new();
        all().iter().for_each(|record| Writer(&mut packet).record(record));
        let mut reader = Reader::new(&packet);
        assert_eq!(reader.by_ref().collect::<Vec<_>>(), all());
        assert!(!reader.failed());
    }

    #[test]
    fn cut_packets_are_noticed() {
        for record in all() {
            let mut packet = Vec::new();
            Writer(&mut packet).record(&record);
            for len in 1..packet.len() {
                let mut reader = Reader::new(&packet[..len]);
                assert_eq!(reader.next(), None, "{record:?} cut to {len} bytes");
                assert!(reader.failed());
            }
        }
        let mut reader = Reader::new(&[255]);
        assert!(reader.next().is_none() && reader.failed());
    }
}
