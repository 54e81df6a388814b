//! A cursor over a kernel's text.

/// A position in a text; it skips white space and comments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor {
    text: &'static str,
    at: usize,
}

impl Cursor {
    pub(super) const fn new(text: &'static str) -> Self {
        Self { text, at: 0 }
    }

    const fn peek(&self, ahead: usize) -> u8 {
        let bytes = self.text.as_bytes();
        if self.at + ahead < bytes.len() { bytes[self.at + ahead] } else { 0 }
    }

    pub(super) const fn is_at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    /// Skips a byte, whatever it is.
    pub(super) const fn advance(&mut self) {
        self.at += 1;
    }

    const fn skip(&mut self) {
        loop {
            match (self.peek(0), self.peek(1)) {
                (b'/', b'/') => {
                    while !self.is_at_end() && self.peek(0) != b'\n' {
                        self.at += 1;
                    }
                }
                (b'/', b'*') => {
                    self.at += 2;
                    while !(self.is_at_end() || self.peek(0) == b'*' && self.peek(1) == b'/') {
                        self.at += 1;
                    }
                    self.at = if self.at + 2 < self.text.len() { self.at + 2 } else { self.text.len() };
                }
                (c, _) if c.is_ascii_whitespace() => self.at += 1,
                _ => return,
            }
        }
    }

    /// Consumes and returns the letters, digits and underscores at the cursor; returns an empty string if there are
    /// none.
    pub(super) const fn word(&mut self) -> &'static str {
        self.skip();
        let start = self.at;
        while self.peek(0).is_ascii_alphanumeric() || self.peek(0) == b'_' {
            self.at += 1;
        }
        let word = self.text.as_bytes().split_at(self.at).0.split_at(start).1;
        match std::str::from_utf8(word) {
            Ok(word) => word,
            Err(_) => "", // cannot happen: all bytes are ASCII
        }
    }

    /// Consumes the expected byte if it comes next; returns whether it did.
    pub(super) const fn take(&mut self, expected: u8) -> bool {
        self.skip();
        let found = !self.is_at_end() && self.peek(0) == expected;
        if found {
            self.at += 1;
        }
        found
    }

    /// Moves past the bracket that closes the current bracket; returns whether there is a closing bracket.
    pub(super) const fn close(&mut self) -> bool {
        let mut depth = 0;
        loop {
            if self.take(b'(') {
                depth += 1;
            } else if self.take(b')') {
                if depth == 0 {
                    return true;
                }
                depth -= 1;
            } else if self.is_at_end() {
                return false;
            } else {
                self.advance();
            }
        }
    }
}
