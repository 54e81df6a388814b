//! `OMP_PLACES` lists: the cores of each compute unit, in OpenMP's notation.
//!
//! `places_parse` parses the lists, following the OpenMP API specification 5.2, section 21.1.6. A list is taken
//! literally and never compared with the machine: [`Machine::plan`](super::Machine::plan) decides how the listed
//! cores are used.
//!
//! Invariants of [`Places`]: there is at least one place; no place is empty; there are at most [`MAX_PLACES`] places,
//! and at most that many cores per place; every core number is less than [`MAX_CORES`]. Order and repetitions are
//! preserved. The text of a list parses back to an equal list.

use std::fmt;

/// The upper bound on core numbers, which is the capacity of the system's fixed-size affinity mask.
pub(crate) const MAX_CORES: usize = 1024;
/// The maximum number of places in a list, and of entries in a place.
pub(crate) const MAX_PLACES: usize = 1024;

/// Error returned when an `OMP_PLACES` list can't be parsed. Columns count characters, from 1.
///
/// ```
/// use thalweg::machine::Places;
/// let error = "{0:4},{4;4}".parse::<Places>().unwrap_err();
/// assert_eq!(error.to_string(), "OMP_PLACES, column 9: found `;`, expected `:`, `,` or `}`");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlacesError {
    /// The text is empty.
    #[error("OMP_PLACES is empty; list places of cores, as in `{{0,1}},{{2,3}}` or `{{0:2}}:2:2`")]
    Empty,
    /// The text contains something other than what was expected.
    #[error("OMP_PLACES, column {column}: found {found}, expected {expected}")]
    Unexpected {
        /// The column of the error.
        column: usize,
        /// The text found there.
        found: String,
        /// Describes the text that would be correct.
        expected: &'static str,
    },
    /// There is an abstract name where a list is required.
    #[error(
        "OMP_PLACES, column {column}: the abstract name `{name}` is not a list; \
         list places of cores, as in `{{0,1}},{{2,3}}` or `{{0:2}}:2:2`; \
         a runtime also takes a name alone, as in `cores` or `cores(4)`"
    )]
    AbstractName {
        /// The column of the error.
        column: usize,
        /// The name.
        name: String,
    },
    /// A number is too large for a core, a count or a stride.
    #[error(
        "OMP_PLACES, column {column}: the number {text} is too large; cores are numbered 0 to {}",
        MAX_CORES - 1
    )]
    NumberTooLarge {
        /// The column of the error.
        column: usize,
        /// The number as written.
        text: String,
    },
    /// A count is zero.
    #[error("OMP_PLACES, column {column}: the count is zero; write 1 or more")]
    ZeroCount {
        /// The column of the error.
        column: usize,
    },
    /// There are more than 1024 places, or entries in a place.
    #[error(
        "OMP_PLACES, column {column}: too many; there can be at most {MAX_PLACES} places, \
         and as many cores in each"
    )]
    TooMany {
        /// The column of the error.
        column: usize,
    },
    /// A core number that was written, or that results from a stride, is out of range.
    #[error(
        "OMP_PLACES, column {column}: this gives core {core}; cores are numbered 0 to {}",
        MAX_CORES - 1
    )]
    NoSuchCore {
        /// The column of the error.
        column: usize,
        /// The core number.
        core: i64,
    },
    /// `!` precedes a core or place that was not listed before.
    #[error(
        "OMP_PLACES, column {column}: `!` removes {what}, which is not listed before it; list it first, or drop the \
         `!`"
    )]
    NotListed {
        /// The column of the error.
        column: usize,
        /// The core or place.
        what: String,
    },
    /// `!` has removed everything.
    #[error("OMP_PLACES, column {column}: `!` has removed everything; keep at least one")]
    NothingLeft {
        /// The column of the error.
        column: usize,
    },
}

/// A list of places, each a list of core numbers.
///
/// ```
/// use thalweg::machine::Places;
/// let places: Places = "{0:2}:2:2, {8}:2:1, 12".parse()?;
/// assert_eq!(places.as_slice(), [vec![0, 1], vec![2, 3], vec![8], vec![9], vec![12]]);
/// assert_eq!(places.to_string(), "{0,1},{2,3},{8},{9},{12}");
/// assert!(!places.overlaps());
/// # Ok::<(), thalweg::machine::PlacesError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Places {
    pub(super) places: Vec<Vec<usize>>,
}

impl Places {
    /// Returns the places, in the order listed.
    pub fn as_slice(&self) -> &[Vec<usize>] {
        &self.places
    }

    /// Returns whether any core is listed more than once, in the same place or in different places. OpenMP allows
    /// repetition; the threads that are placed on such a core share it.
    pub fn overlaps(&self) -> bool {
        let mut cores = self.places.concat();
        cores.sort_unstable();
        cores.windows(2).any(|pair| pair[0] == pair[1])
    }
}

impl fmt::Display for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, place) in self.places.iter().enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { "," }, braced(place))?;
        }
        Ok(())
    }
}

pub(super) fn braced(place: &[usize]) -> String {
    let cores: Vec<String> = place.iter().map(usize::to_string).collect();
    format!("{{{}}}", cores.join(","))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn places(text: &str) -> Places {
        text.parse().unwrap()
    }

    /// Returns the canonical text: intervals and repetitions written out.
    fn expanded(text: &str) -> String {
        places(text).to_string()
    }

    #[test]
    fn overlap_within_and_between_places() {
        assert!(!places("{0:4}:4:4").overlaps());
        assert!(places("{0:4},{3}").overlaps());
        assert!(places("{1,1}").overlaps());
        assert!(places("{0}:2:0").overlaps());
    }

    #[test]
    fn order_and_repetition_are_kept() {
        let p = places("{3,1,1},{2},{1}");
        assert_eq!(p.as_slice(), [vec![3, 1, 1], vec![2], vec![1]]);
        assert_eq!(p.to_string(), "{3,1,1},{2},{1}");
    }

    /// The places in "Evaluation of work distribution schedulers", Table 2, are taken literally.
    #[test]
    fn places_of_table_2_parse() {
        for (text, places) in [
            // For 1x2+4.
            ("{0:2}:1:1, {2}:4:1", "{0,1},{2},{3},{4},{5}"),
            // The table labels this line 1x4+1, but taken literally it is a place of three cores, without core 3.
            // 1x4+1 would be {0:4}:1:1,{4}:1:1.
            ("{0:3}:1:1, {4}:1:1", "{0,1,2},{4}"),
            // For 4x2+1.
            ("{0:2}:4:2, {8}:1:1", "{0,1},{2,3},{4,5},{6,7},{8}"),
            // For 7x2+2.
            ("{0:2}:7:2, {14}:2:1", "{0,1},{2,3},{4,5},{6,7},{8,9},{10,11},{12,13},{14},{15}"),
            // For 3x4+4.
            ("{0:4}:3:4, {12}:4:1", "{0,1,2,3},{4,5,6,7},{8,9,10,11},{12},{13},{14},{15}"),
        ] {
            assert_eq!(expanded(text), places);
        }
    }

    #[test]
    fn other_place_lists_from_the_papers_parse() {
        let four = "{0,1,2,3},{4,5,6,7},{8,9,10,11},{12,13,14,15}";
        assert_eq!(expanded("{0:4},{4:4},{8:4},{12:4}"), four);
        assert_eq!(expanded("{0:4}:4:4"), four);
        assert_eq!(
            expanded("{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8}, {9}, {10}, {11}"),
            "{0,1},{2,3},{4,5},{6,7},{8},{9},{10},{11}"
        );
        // The paper means cores 1..=11 and 13..=47 (13:35), but taken literally the text means 47 cores from core 13
        // on.
        let places: Places = "{0},{12},{1:11,13:47}".parse().unwrap();
        let third: Vec<usize> = (1..=11).chain(13..=59).collect();
        assert_eq!(places.as_slice(), [vec![0], vec![12], third]);
    }

    proptest! {
        #[test]
        fn text_parses_back(places in prop::collection::vec(
            prop::collection::vec(0..MAX_CORES, 1..6), 1..12,
        )) {
            let text = Places { places: places.clone() }.to_string();
            let parsed: Places = text.parse().unwrap();
            prop_assert_eq!(parsed.as_slice(), &places[..]);
        }
    }
}
