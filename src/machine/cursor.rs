//! A cursor over the text of an `OMP_PLACES` list, which tracks the next character and its column.
//!
//! The cursor recognizes characters, numbers and words; `places_parse` contains the grammar. Blanks are skipped,
//! except that they end a number.
//!
//! Invariant: columns count characters from 1. A reported column is always that of a non-blank character or of the
//! end.

use super::places::PlacesError;

/// Reads a text from its start to its end.
pub(super) struct Cursor {
    chars: Vec<char>,
    /// Index of the next character.
    at: usize,
}

impl Cursor {
    pub(super) fn new(text: &str) -> Self {
        let chars = text.chars().collect();
        Self { chars, at: 0 }
    }

    /// Reads digits. The number is never negative and is less than 2^32, so that sums and products of such numbers do
    /// not overflow.
    pub(super) fn number(&mut self, expected: &'static str) -> Result<i64, PlacesError> {
        let column = self.column();
        let digits = self.chars[self.at..].iter().take_while(|c| c.is_ascii_digit());
        let text: String = digits.collect();
        if text.is_empty() {
            return Err(self.unexpected(expected));
        }
        self.at += text.len();
        let number = text.parse::<u32>().map(i64::from);
        number.map_err(|_| PlacesError::NumberTooLarge { column, text })
    }

    /// Moves to the next non-blank character and returns it.
    pub(super) fn peek(&mut self) -> Option<char> {
        while self.chars.get(self.at).is_some_and(|c| c.is_whitespace()) {
            self.at += 1;
        }
        self.chars.get(self.at).copied()
    }

    /// Moves to the next non-blank character and returns its column.
    pub(super) fn column(&mut self) -> usize {
        self.peek();
        self.at + 1
    }

    /// Moves past the next character if it equals `wanted`; returns whether it did.
    pub(super) fn eat(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    /// Returns an error that reports the next character, or the end, as unexpected.
    pub(super) fn unexpected(&mut self, expected: &'static str) -> PlacesError {
        let found = self.peek().map_or("the end".to_owned(), |c| format!("`{c}`"));
        let column = self.column();
        PlacesError::Unexpected { column, found, expected }
    }

    /// Returns an error that reports the next word as an unsupported abstract name.
    pub(super) fn abstract_name(&mut self) -> PlacesError {
        let column = self.column();
        let rest = &self.chars[self.at..];
        let name = rest.iter().take_while(|&&c| c.is_alphanumeric() || c == '_').collect();
        PlacesError::AbstractName { column, name }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_characters_and_skip_blanks() {
        let mut cursor = Cursor::new("  é  12 x");
        assert!(!cursor.eat('x'));
        assert!(cursor.eat('é'));
        assert_eq!(cursor.column(), 6);
        assert_eq!(cursor.number("a number"), Ok(12));
        assert_eq!((cursor.column(), cursor.peek()), (9, Some('x')));
        assert!(cursor.eat('x'));
        assert_eq!((cursor.column(), cursor.peek()), (10, None));
    }

    #[test]
    fn blanks_end_numbers() {
        let mut cursor = Cursor::new("1 2");
        assert_eq!(cursor.number("a number"), Ok(1));
        assert_eq!(cursor.number("a number"), Ok(2));
        assert!(cursor.number("a number").is_err());
    }

    #[test]
    fn abstract_name_ends_with_its_letters() {
        let name = "ll_caches".to_owned();
        let error = Cursor::new("ll_caches(2)").abstract_name();
        assert_eq!(error, PlacesError::AbstractName { column: 1, name });
    }
}
