//! Output of text lines and of team barriers. Outside loops over threads, no path contains two barriers directly
//! after one another.
//!
//! A second barrier in a row has nothing to wait for. It costs time, and PoCL 3.1 miscompiles such pairs, such that
//! all threads of a team execute a statement that only one thread should execute. A pair may also be separated by a
//! loop that runs no iterations, or consist of the last barrier of one iteration and the first barrier of the next.
//!
//! Invariants:
//! 1. A barrier is omitted only if, on every path to it, the team has already synchronised and no thread has touched
//!    shared memory since.
//! 2. A line that might touch shared memory is treated as if it does.

use super::Writer;

/// A line that contains one of these strings touches memory that other threads can see.
const TOUCHES: [&str; 5] = ["[", "LOAD", "STORE", "REDUCE", "SCAN"];
const BARRIER: &str = "BARRIER();";

fn touches(line: &str) -> bool {
    !line.starts_with("LOCAL(") && TOUCHES.iter().any(|word| line.contains(word))
}

impl Writer<'_> {
    pub(super) fn line(&mut self, line: impl AsRef<str>) {
        let line = line.as_ref();
        self.has_met &= !touches(line);
        for _ in 0..self.indent {
            self.text.push_str("    ");
        }
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Emits a barrier, unless the team has just synchronised.
    pub(super) fn barrier(&mut self) {
        if !self.has_met {
            self.line(BARRIER);
            self.has_met = true;
        }
    }

    pub(super) fn open(&mut self, line: impl AsRef<str>) {
        self.line(line);
        self.indent += 1;
    }

    pub(super) fn close(&mut self) {
        self.close_by("}");
    }

    fn close_by(&mut self, brackets: &str) {
        self.indent -= 1;
        self.line(brackets);
    }

    /// Emits a statement that leaves the innermost loop or the current iteration of it.
    pub(super) fn jump(&mut self, line: &str) {
        self.line(line);
        if let Some(jumps) = self.jumps.last_mut() {
            *jumps &= self.has_met;
        }
        self.has_met = true; // no path continues from here
    }

    /// Emits two branches; all threads of a team take the same one.
    pub(super) fn either(
        &mut self,
        condition: &str,
        then: impl FnOnce(&mut Self),
        otherwise: Option<impl FnOnce(&mut Self)>,
    ) {
        self.open(format!("if ({condition}) {{"));
        let before = self.has_met;
        then(self);
        let after = std::mem::replace(&mut self.has_met, before);
        if let Some(otherwise) = otherwise {
            self.indent -= 1;
            self.open("} else {");
            otherwise(self);
        }
        self.has_met &= after;
        self.close();
    }

    /// Emits a loop that all threads of a team run identically.
    pub(super) fn repeat(&mut self, head: &str, body: impl Fn(&mut Self)) {
        self.repeat_in(head, "}", body);
    }

    /// Like [`repeat`](Self::repeat), with closing brackets that match the head.
    pub(super) fn repeat_in(&mut self, head: &str, brackets: &str, body: impl Fn(&mut Self)) {
        let (start, before) = (self.text.len(), self.has_met && !touches(head));
        let once = |writer: &mut Self, has_met: bool| {
            writer.open(head);
            writer.has_met = has_met && !touches(head);
            writer.jumps.push(true);
            body(writer);
            writer.has_met &= writer.jumps.pop().unwrap_or(true) && !touches(head);
            writer.close_by(brackets);
            writer.has_met
        };
        let again = |writer: &mut Self| writer.text.split_off(start);
        if once(self, true) {
            if before {
                return;
            }
            // Every iteration except the first begins synchronised if the previous iteration ended synchronised.
            let met = again(self);
            once(self, false);
            if self.text[start..] != met {
                drop(again(self));
                self.has_met = false;
                self.barrier();
                once(self, true);
                return;
            }
        } else {
            drop(again(self));
            once(self, false);
        }
        self.has_met = false;
    }

    /// Emits iterations that teams or threads execute independently. Inside these iterations, nothing is known about
    /// the preceding barriers, and after them, nothing is known about barriers inside.
    pub(super) fn apart(&mut self, head: &str, brackets: &str, body: impl FnOnce(&mut Self)) {
        self.open(head);
        self.has_met = false;
        self.jumps.push(true);
        body(self);
        self.jumps.pop();
        self.close_by(brackets);
        self.has_met = false;
    }
}
