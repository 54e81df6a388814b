//! Output of text lines, and the barriers of a team: no barrier follows another on any path around loops over
//! threads.
//!
//! A second barrier has nothing to wait for. It costs time, and PoCL 3.1 miscompiles such pairs: all threads of a
//! team execute a statement that only one of them should execute. A pair may be separated by a loop that runs no
//! iteration, or be the last barrier of one iteration and the first of the next.
//!
//! Invariants:
//! 1. A barrier is left out only if the team has synchronised on every path to it and no thread has touched shared
//!    memory since.
//! 2. A line that might touch shared memory counts as one that does.

use super::Writer;

/// Lines with one of these touch memory that other threads see.
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

    /// Emits a statement that leaves the innermost loop, or this iteration of it.
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
            // Every iteration but the first begins synchronised, as the one before it ended.
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

    /// Emits iterations that teams or threads execute independently. Inside, nothing is known about the barriers
    /// around them, and nothing about the inner barriers afterwards.
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
