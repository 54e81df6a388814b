//! Data objects of a replay: maps the regions named in a trace to arrays of bytes with the same overlaps.
//!
//! A region `[a..b, c..d]` of elements of `e` bytes becomes the region `[a..b, c*e..d*e]` of an array of bytes. So
//! two regions overlap exactly if the recorded regions did, and in the same number of bytes. An array is as large
//! as its data object. With several dimensions, it extends as far as the regions do, because a trace does not
//! contain the shape.
//!
//! This module never allocates memory for data.

use std::collections::HashMap;
use std::ops::Range;
use thalweg_trace::Trace;

/// The largest number of dimensions of an array.
const MAX_DIMS: usize = 4;

/// A data object of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Object {
    /// An array of bytes with these extents.
    Array(Vec<usize>),
    /// A value, which stays in host memory.
    Value,
    /// A token, which has no memory.
    Token,
}

/// The data objects that the accesses of a trace need.
#[derive(Debug, Default)]
pub(super) struct Layout {
    pub(super) objects: Vec<Object>,
    /// For each region of the trace, the index of its data object in `objects`, and its ranges in bytes. The list
    /// of ranges is empty if the region is a whole value or token.
    pub(super) regions: Vec<(usize, Vec<Range<usize>>)>,
}

impl Layout {
    /// Creates the data objects for the accesses of `trace`.
    ///
    /// # Errors
    /// Returns the reason if an access has no region, or if the text of a region cannot be interpreted.
    pub(super) fn of(trace: &Trace) -> Result<Self, String> {
        if trace.accesses.iter().any(|access| access.region.is_none()) {
            return Err("the program has more regions than a trace can name".to_owned());
        }
        let mut layout = Self::default();
        let mut numbers = HashMap::new();
        for region in &trace.regions {
            let data = trace.data.get(&region.data);
            let ranges = ranges_in_bytes(&region.text, region.bytes)?;
            let object = *numbers.entry(region.data).or_insert_with(|| {
                layout.objects.push(match data {
                    Some(data) if ranges.is_empty() && data.name.starts_with("value") => Object::Value,
                    _ if ranges.is_empty() => Object::Token,
                    Some(data) if ranges.len() == 1 => Object::Array(vec![data.bytes as usize]),
                    _ => Object::Array(vec![0; ranges.len()]),
                });
                layout.objects.len() - 1
            });
            match &mut layout.objects[object] {
                Object::Array(extents) if extents.len() == ranges.len() => {
                    extents.iter_mut().zip(&ranges).for_each(|(extent, range)| *extent = (*extent).max(range.end));
                }
                Object::Value | Object::Token if ranges.is_empty() => {}
                _ => return Err(format!("the region `{}` does not fit the other regions of its data", region.text)),
            }
            layout.regions.push((object, ranges));
        }
        for object in &layout.objects {
            let Object::Array(extents) = object else { continue };
            let bytes = extents.iter().try_fold(1usize, |bytes, extent| bytes.checked_mul(*extent));
            if bytes.is_none_or(|bytes| bytes > isize::MAX as usize) {
                return Err("a data object is larger than any memory".to_owned());
            }
        }
        Ok(layout)
    }
}

/// Returns the ranges of a region of `bytes` bytes, with the last dimension converted to bytes. The list is empty
/// for `all`.
fn ranges_in_bytes(text: &str, bytes: u64) -> Result<Vec<Range<usize>>, String> {
    if text == "all" {
        return Ok(Vec::new());
    }
    let unknown = || format!("the region `{text}` is not of the form `[a..b, c..d]`");
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).ok_or_else(unknown)?;
    let range = |text: &str| {
        let (from, to) = text.trim().split_once("..")?;
        let range = from.parse::<usize>().ok()?..to.parse::<usize>().ok()?;
        (range.start <= range.end).then_some(range)
    };
    let mut ranges = inner.split(',').map(range).collect::<Option<Vec<_>>>().ok_or_else(unknown)?;
    let volume = ranges.iter().try_fold(1u64, |volume, range| volume.checked_mul(range.len() as u64));
    let volume = volume.ok_or_else(unknown)?;
    let element_bytes = match volume {
        0 => 1,
        volume if bytes > 0 && bytes.is_multiple_of(volume) => bytes / volume,
        _ => return Err(format!("the region `{text}` cannot have {bytes} bytes")),
    } as usize;
    let last = ranges.last_mut().filter(|_| !inner.is_empty()).ok_or_else(unknown)?;
    let (start, end) = (last.start.checked_mul(element_bytes), last.end.checked_mul(element_bytes));
    *last = start.zip(end).map(|(start, end)| start..end).ok_or_else(unknown)?;
    if ranges.len() > MAX_DIMS { Err(unknown()) } else { Ok(ranges) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_trace::{Access, AccessMode, Data, Region};

    fn trace(data: &[(&str, u64)], regions: &[(u64, u64, &str)]) -> Trace {
        let region =
            |(data, bytes, text): &(u64, u64, &str)| Region { data: *data, bytes: *bytes, text: (*text).to_owned() };
        let named =
            |(number, (name, bytes)): (u64, &(&str, u64))| (number, Data { name: (*name).to_owned(), bytes: *bytes });
        let data = (1..).zip(data).map(named).collect();
        Trace { data, regions: regions.iter().map(region).collect(), ..Trace::default() }
    }

    #[test]
    fn regions_keep_bytes_and_overlaps() {
        let trace = trace(
            &[("data 1", 800), ("data `t`", 96), ("value 3", 0), ("token 4", 0)],
            &[(1, 80, "[0..10]"), (1, 80, "[5..15]"), (2, 32, "[0..2, 4..6]"), (3, 0, "all"), (4, 0, "all")],
        );
        let Layout { objects, regions } = Layout::of(&trace).unwrap();
        let expected = [Object::Array(vec![800]), Object::Array(vec![2, 48]), Object::Value, Object::Token];
        assert_eq!(objects, expected);
        assert_eq!((regions[1].0, &regions[1].1[..]), (0, std::slice::from_ref(&(40..120))));
        assert_eq!(regions[2], (1, vec![0..2, 32..48]));
        assert_eq!(regions[3], (2, vec![]));
    }

    #[test]
    fn unknown_texts_are_refused_with_the_text() {
        for (text, bytes) in [("[0..2", 16), ("[2..0]", 16), ("[0..3]", 16), ("[]", 8), ("x", 8), ("[0..2, 1]", 16)] {
            let error = Layout::of(&trace(&[("data 1", 16)], &[(1, bytes, text)])).unwrap_err();
            assert!(error.contains(text), "{error}");
        }
        let mut nameless = trace(&[], &[]);
        nameless.accesses.push(Access { task: 0, region: None, mode: AccessMode::Read });
        assert!(Layout::of(&nameless).is_err());
    }
}
