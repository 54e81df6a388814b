//! Parser for `OMP_PLACES` lists, which follows the grammar in the OpenMP API specification 5.2, section 21.1.6:
//!
//! - `{0,1},{2,3}`: two places. A single number `5` means `{5}`.
//! - `{start:count:stride}`: an interval of cores. `{..}:count:stride`: shifted copies of a place. A stride may be
//!   negative, and defaults to 1.
//! - `!`, the exclusion operator: removes the core or place that follows it from those listed before it. For this
//!   purpose, a place is a set: `!{1,0}` removes `{0,1}`.
//!
//! Abstract names (`cores`, `sockets`, ..) do not list cores and are refused here. `binding` handles an abstract name
//! that is the whole value of the variable.
//!
//! Invariant: every error names the column, counted in characters from 1, and says what would be correct there.

use std::str::FromStr;

use super::cursor::Cursor;
use super::places::{MAX_CORES, MAX_PLACES, Places, PlacesError, braced};

impl FromStr for Places {
    type Err = PlacesError;

    fn from_str(text: &str) -> Result<Self, PlacesError> {
        if text.trim().is_empty() {
            return Err(PlacesError::Empty);
        }
        let places = Cursor::new(text).places()?;
        Ok(Self { places })
    }
}

/// `:count:stride`, both 1 by default.
struct Repeat {
    count: usize,
    stride: i64,
    /// The number of colons written: 0, 1 or 2.
    colons: u8,
}

impl Repeat {
    /// Returns the offset that each repetition adds to the core number.
    fn offsets(&self) -> impl Iterator<Item = i64> {
        let stride = self.stride;
        (0..self.count as i64).map(move |i| i * stride)
    }
}

/// A recursive descent parser, with one method for each symbol of the grammar.
impl Cursor {
    /// Parses a list of places up to the end of the text.
    fn places(&mut self) -> Result<Vec<Vec<usize>>, PlacesError> {
        let mut places: Vec<Vec<usize>> = Vec::new();
        loop {
            let column = self.column();
            let may_repeat = if self.eat('!') {
                let place = self.place()?;
                let what = format!("place {}", braced(&place));
                remove(&mut places, |p| same_cores(p, &place), what, column)?;
                false
            } else {
                let place = self.place()?;
                let repeat = self.repeat(MAX_PLACES - places.len(), column)?;
                for offset in repeat.offsets() {
                    let shifted = place.iter().map(|&c| core(c as i64 + offset, column));
                    places.push(shifted.collect::<Result<_, _>>()?);
                }
                repeat.colons < 2
            };
            match self.peek() {
                None if places.is_empty() => return Err(PlacesError::NothingLeft { column }),
                None => return Ok(places),
                Some(_) if self.eat(',') => {}
                Some(_) if may_repeat => return Err(self.unexpected("`:`, `,` or the end")),
                Some(_) => return Err(self.unexpected("`,` or the end")),
            }
        }
    }

    /// Parses `{..}`, or a single core.
    fn place(&mut self) -> Result<Vec<usize>, PlacesError> {
        if self.eat('{') {
            return self.cores();
        }
        match self.peek() {
            Some(c) if c.is_ascii_digit() => Ok(vec![self.core()?]),
            Some(c) if c.is_alphabetic() => Err(self.abstract_name()),
            _ => Err(self.unexpected("a place such as `{0,1}`")),
        }
    }

    /// Parses the contents of `{..}` and the closing brace.
    fn cores(&mut self) -> Result<Vec<usize>, PlacesError> {
        let mut cores: Vec<usize> = Vec::new();
        loop {
            let column = self.column();
            let may_repeat = if self.eat('!') {
                let excluded = self.core()?;
                let what = format!("core {excluded}");
                remove(&mut cores, |&c| c == excluded, what, column)?;
                false
            } else {
                let first = self.core()?;
                let repeat = self.repeat(MAX_PLACES - cores.len(), column)?;
                for offset in repeat.offsets() {
                    cores.push(core(first as i64 + offset, column)?);
                }
                repeat.colons < 2
            };
            if self.eat('}') {
                return if cores.is_empty() { Err(PlacesError::NothingLeft { column }) } else { Ok(cores) };
            }
            if !self.eat(',') {
                let expected = if may_repeat { "`:`, `,` or `}`" } else { "`,` or `}`" };
                return Err(self.unexpected(expected));
            }
        }
    }

    /// Parses a core number.
    fn core(&mut self) -> Result<usize, PlacesError> {
        let column = self.column();
        core(self.number("a core number")?, column)
    }

    /// Parses `:count:stride`, `:count` or nothing, after the item at `column`; there may be at most `room`
    /// repetitions.
    fn repeat(&mut self, room: usize, mut column: usize) -> Result<Repeat, PlacesError> {
        let (mut count, mut stride, mut colons) = (1, 1, 0);
        if self.eat(':') {
            column = self.column();
            count = self.number("a count")? as usize;
            colons = 1;
            if self.eat(':') {
                let sign = if self.eat('-') { -1 } else { 1 };
                stride = sign * self.number("a stride")?;
                colons = 2;
            }
        }
        match count {
            0 => Err(PlacesError::ZeroCount { column }),
            _ if count > room => Err(PlacesError::TooMany { column }),
            _ => Ok(Repeat { count, stride, colons }),
        }
    }
}

/// Checks that a number is a valid core number.
fn core(number: i64, column: usize) -> Result<usize, PlacesError> {
    match usize::try_from(number) {
        Ok(core) if core < MAX_CORES => Ok(core),
        _ => Err(PlacesError::NoSuchCore { column, core: number }),
    }
}

/// Returns whether both places contain the same set of cores.
fn same_cores(a: &[usize], b: &[usize]) -> bool {
    a.iter().all(|core| b.contains(core)) && b.iter().all(|core| a.contains(core))
}

/// Removes all items for which `excluded` is true from the list. Returns an error if there is no such item.
fn remove<T>(
    items: &mut Vec<T>,
    excluded: impl Fn(&T) -> bool,
    what: String,
    column: usize,
) -> Result<(), PlacesError> {
    let before = items.len();
    items.retain(|item| !excluded(item));
    if items.len() == before {
        return Err(PlacesError::NotListed { column, what });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the canonical text: intervals and repetitions written out.
    fn expanded(text: &str) -> String {
        text.parse::<Places>().unwrap_or_else(|e| panic!("{text}: {e}")).to_string()
    }

    fn error(text: &str) -> PlacesError {
        text.parse::<Places>().unwrap_err()
    }

    #[test]
    fn place_lists_expand_by_the_grammar() {
        for (text, places) in [
            ("3", "{3}"),
            ("0:4", "{0},{1},{2},{3}"),
            ("0,4,8", "{0},{4},{8}"),
            ("{0:3:2}", "{0,2,4}"),
            ("{6:3:-2}", "{6,4,2}"),
            ("{0:2:8,1}", "{0,8,1}"),
            ("{4:2}:3:-2", "{4,5},{2,3},{0,1}"),
            ("{0:2}:2", "{0,1},{1,2}"),
            ("{0}:2:0", "{0},{0}"),
            ("{0:4,!2}", "{0,1,3}"),
            ("{0,!0,1}", "{1}"),
            ("{0:2}:3:2,!{3,2}", "{0,1},{4,5}"),
            ("0:3,!1", "{0},{2}"),
            (" { 0 : 2 : 2 } : 2 : 1 ,\t! { 0 , 2 } ", "{1,3}"),
            ("{1023}", "{1023}"),
        ] {
            assert_eq!(expanded(text), places, "{text}");
        }
    }

    #[test]
    fn unexpected_text_is_refused_with_its_column() {
        for (text, column, found, expected) in [
            ("{0,1},", 7, "the end", "a place such as `{0,1}`"),
            (",{0}", 1, "`,`", "a place such as `{0,1}`"),
            ("{}", 2, "`}`", "a core number"),
            ("{0,}", 4, "`}`", "a core number"),
            ("{-1}", 2, "`-`", "a core number"),
            ("{é}", 2, "`é`", "a core number"),
            ("{0", 3, "the end", "`:`, `,` or `}`"),
            ("{0:2:1:1}", 7, "`:`", "`,` or `}`"),
            ("{0 1}", 4, "`1`", "`:`, `,` or `}`"),
            ("{0,!0:2}", 6, "`:`", "`,` or `}`"),
            ("{0:}", 4, "`}`", "a count"),
            ("{0:-2}", 4, "`-`", "a count"),
            ("{0:2:}", 6, "`}`", "a stride"),
            ("{0};{1}", 4, "`;`", "`:`, `,` or the end"),
            ("{0}:2:2:2", 8, "`:`", "`,` or the end"),
            ("{0}:2,!{0}:2", 11, "`:`", "`,` or the end"),
            ("{0}}", 4, "`}`", "`:`, `,` or the end"),
        ] {
            let found = found.to_owned();
            let e = PlacesError::Unexpected { column, found, expected };
            assert_eq!(error(text), e, "{text}");
        }
        assert_eq!(
            error("{0,1},").to_string(),
            "OMP_PLACES, column 7: found the end, expected a place such as `{0,1}`"
        );
    }

    #[test]
    fn empty_text_and_abstract_names_are_refused() {
        assert_eq!(error(""), PlacesError::Empty);
        assert_eq!(error(" \n"), PlacesError::Empty);
        for (text, column, name) in
            [("cores", 1, "cores"), (" sockets(2)", 2, "sockets"), ("numa_domains", 1, "numa_domains")]
        {
            let e = error(text);
            assert!(e.to_string().contains("list places of cores, as in `{0,1},{2,3}`"), "{e}");
            assert_eq!(e, PlacesError::AbstractName { column, name: name.into() });
        }
    }

    #[test]
    fn counts_out_of_range_are_refused() {
        for (text, column) in [("{0:0}", 4), ("{0}: 0", 6)] {
            assert_eq!(error(text), PlacesError::ZeroCount { column });
        }
        for (text, column) in [("{0:1025:0}", 4), ("{0:1024:0, 1}", 12), ("0:1000:0, 1:25:0", 13), ("0:1024:0, 1", 11)]
        {
            assert_eq!(error(text), PlacesError::TooMany { column }, "{text}");
        }
    }

    #[test]
    fn cores_out_of_range_are_refused() {
        for (text, column, core) in [
            ("{1024}", 2, 1024),
            ("{0,!1024}", 5, 1024),
            ("{0,1:3:-1}", 4, -1),
            ("{0:4}:2:1023", 1, 1024),
            ("{1}, {0}:2:-4", 6, -4),
            ("{0:1024:-4294967295}", 2, -4_294_967_295),
        ] {
            assert_eq!(error(text), PlacesError::NoSuchCore { column, core }, "{text}");
        }
        let (column, text) = (4, "4294967296".to_owned());
        let e = error("{0:4294967296}");
        assert_eq!(e, PlacesError::NumberTooLarge { column, text });
        assert!(e.to_string().ends_with("cores are numbered 0 to 1023"), "{e}");
    }

    #[test]
    fn exclusion_needs_something_to_exclude() {
        for (text, column, what) in [
            ("{0,!1}", 4, "core 1"),
            ("{!1,0}", 2, "core 1"),
            ("{0}, !{1}", 6, "place {1}"),
            ("{0:2},!{0}", 7, "place {0}"),
            ("{0},!{0,1}", 5, "place {0,1}"),
        ] {
            let what = what.to_owned();
            assert_eq!(error(text), PlacesError::NotListed { column, what });
        }
        for (text, column) in [("{0},{1,!1}", 8), ("{0},!{0}", 5)] {
            assert_eq!(error(text), PlacesError::NothingLeft { column });
        }
    }

    proptest! {
        #[test]
        fn intervals_are_arithmetic(
            (start, count, stride) in (450usize..550, 1usize..12, -20i64..20),
            (copies, shift) in (1usize..8, -20i64..20), // from 450 - 220 - 140 to 549 + 209 + 133: all below 1024
        ) {
            let text = format!("{{{start}:{count}:{stride}}}:{copies}:{shift}");
            let core = |i, j| (start as i64 + i as i64 * stride + j as i64 * shift) as usize;
            let expected: Vec<Vec<usize>> =
                (0..copies).map(|j| (0..count).map(|i| core(i, j)).collect()).collect();
            let places: Places = text.parse().unwrap();
            prop_assert_eq!(places.as_slice(), &expected[..]);
        }

        #[test]
        fn any_text_gives_places_or_an_error(text in "[0-9{}:,! a-]{0,24}") {
            if let Ok(places) = text.parse::<Places>() {
                prop_assert!(places.as_slice().iter().all(|place| !place.is_empty()));
                prop_assert_eq!(places.to_string().parse::<Places>(), Ok(places));
            }
        }
    }
}
