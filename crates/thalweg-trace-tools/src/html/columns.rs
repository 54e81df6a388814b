//! Encoding of numeric columns as text: variable-length integers, then compression, then base64.
//!
//! A block holds several columns, one after the other. A column is a sequence of integers of one to ten bytes:
//! seven bits per byte, lowest first, the highest bit set in all bytes but the last. Signed numbers are folded (0,
//! −1, 1, −2 become 0, 1, 2, 3), and a difference column stores each number minus its predecessor. A column whose
//! integers are all equal stores only the first. The report's script reverses this in `assets/data.js`.
//!
//! This module does not know what the numbers mean.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde_json::{Value, json};
use std::io::Write as _;

/// Several columns under construction.
#[derive(Default)]
pub(super) struct Columns {
    bytes: Vec<u8>,
    directory: Vec<Value>,
}

impl Columns {
    /// Appends a column of unsigned numbers.
    pub(super) fn plain(&mut self, name: &str, values: impl IntoIterator<Item = u64>) {
        self.append(name, "plain", values.into_iter());
    }

    /// Appends a column of signed numbers.
    pub(super) fn signed(&mut self, name: &str, values: impl IntoIterator<Item = i64>) {
        self.append(name, "signed", values.into_iter().map(fold));
    }

    /// Appends a column of numbers in which each number is close to its predecessor.
    pub(super) fn deltas(&mut self, name: &str, values: impl IntoIterator<Item = u64>) {
        let mut last = 0;
        let difference = |value: u64| fold(value.wrapping_sub(std::mem::replace(&mut last, value)) as i64);
        self.append(name, "deltas", values.into_iter().map(difference));
    }

    fn append(&mut self, name: &str, kind: &str, values: impl Iterator<Item = u64>) {
        let (begin, mut count) = (self.bytes.len(), 0_u64);
        let (mut first, mut is_constant) = (None, true);
        for mut value in values {
            is_constant &= *first.get_or_insert(value) == value;
            while value >= 0x80 {
                self.bytes.push(value as u8 | 0x80);
                value >>= 7;
            }
            self.bytes.push(value as u8);
            count += 1;
        }
        if is_constant && count > 1 {
            let length = (self.bytes.len() - begin) / count as usize;
            self.bytes.truncate(begin + length);
        }
        self.directory.push(json!([name, kind, count, self.bytes.len() - begin]));
    }

    /// Returns the directory (name, kind, count and size in bytes of each column, in order) and the block as text.
    pub(super) fn finish(self) -> std::io::Result<(Value, String)> {
        // The fastest level. Higher levels save a tenth of the size but take several times as long.
        let mut encoder = ZlibEncoder::new(Vec::with_capacity(self.bytes.len() / 2), Compression::fast());
        encoder.write_all(&self.bytes)?;
        let text = BASE64_STANDARD.encode(encoder.finish()?);
        Ok((Value::Array(self.directory), text))
    }
}

/// Maps signed numbers near zero to small unsigned numbers.
fn fold(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}
