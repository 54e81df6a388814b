//! Offsets of the ranks' clocks from that of rank 0, for traces, measured at the start and at the end of a run.
//!
//! A rank asks rank 0 for its time, several times in a row. The true offset is between the ones that follow if the
//! answer was given at once and if it was given at the last moment. So the middle of the shortest exchange counts, and
//! half of its length bounds the error. The clocks are those of the traces. A rank that is not traced measures nothing.
//!
//! *The end.* A rank says goodbye after its last measurement. Rank 0 answers until all ranks have said goodbye.

use super::Link;
use crate::shared::Nanoseconds;
use crate::transport::Transport;
use crate::wire::Record;
use std::fmt::Write;
use std::path::PathBuf;

/// Questions of each rank in each of the two measurements.
const QUESTIONS: u64 = 32;

/// The clock's time minus that of rank 0, at some time of the clock, with a bound of the error.
#[derive(Clone, Copy)]
struct Offset {
    at: u64,
    offset: i64,
    error: u64,
}

/// A rank's clock and its measurements.
pub(super) struct Clock {
    now: Nanoseconds,
    /// The file of the offsets, unless this is rank 0 or the rank is not traced.
    file: Option<PathBuf>,
    /// Questions still to be answered in this measurement: those of this rank, or on rank 0 those of all others.
    left: u64,
    /// The offset by the shortest exchange of this measurement.
    best: Option<Offset>,
    offsets: Vec<Offset>,
    is_last: bool,
}

impl Clock {
    /// Whether the communication thread has to look for messages.
    pub(super) fn waits(&self) -> bool {
        self.left > 0
    }

    /// Ends the measurements without their answers. Returns whether the rank is to leave after them.
    pub(super) fn give_up(&mut self) -> bool {
        self.left = 0;
        self.is_last
    }

    /// Notes that the question of the time `asked` has been answered with the time `theirs`.
    fn note(&mut self, asked: u64, theirs: u64) {
        let took = (self.now)().saturating_sub(asked);
        let (at, error) = (asked + took / 2, took / 2 + 1);
        if self.best.is_none_or(|best| error < best.error) {
            self.best = Some(Offset { at, offset: at as i64 - theirs as i64, error });
        }
        self.left -= 1;
        if self.left == 0 {
            self.offsets.extend(self.best.take());
            self.save();
        }
    }

    fn save(&self) {
        let Some(file) = &self.file else { return };
        let mut text = String::new();
        self.offsets.iter().for_each(|Offset { at, offset, error }| _ = writeln!(text, "{at} {offset} {error}"));
        if let Err(problem) = std::fs::write(file, text) {
            eprintln!("thalweg-mpi: cannot write {}: {problem}; try a folder that stays", file.display());
        }
    }
}

impl<T: Transport> Link<T> {
    /// Begins the measurement at the start of a run, and answers the questions of ranks that were faster.
    pub(super) fn start_clock(&mut self, now: Nanoseconds, file: Option<PathBuf>) {
        let others = self.peers.len() as u64 - 1;
        let left = if file.is_none() || others == 0 { 0 } else { QUESTIONS * if self.rank == 0 { others } else { 1 } };
        let file = file.filter(|_| self.rank != 0);
        let clock = Clock { now, file, left, best: None, offsets: Vec::new(), is_last: false };
        clock.save(); // replaces the offsets of an earlier run
        self.clock = Some(clock);
        self.ask_time();
        std::mem::take(&mut self.early_questions).into_iter().for_each(|(from, asked)| self.answer_time(from, asked));
    }

    /// Begins the measurement at the end of a run. Returns whether there is one: then the rank leaves after it.
    pub(super) fn end_clock(&mut self) -> bool {
        let measures = self.shared.broken().is_none();
        let Some(clock) = self.clock.as_mut().filter(|clock| measures && clock.file.is_some()) else { return false };
        let is_idle = clock.left == 0;
        (clock.left, clock.is_last) = (clock.left + QUESTIONS, true);
        if is_idle {
            self.ask_time();
        }
        true
    }

    /// Asks the next question, if this rank measures.
    fn ask_time(&mut self) {
        if let Some(clock) = self.clock.as_ref().filter(|clock| clock.file.is_some()) {
            let asked = (clock.now)();
            self.post(0, Record::AskTime { asked });
        }
    }

    /// Answers a question for the time, on rank 0.
    pub(super) fn answer_time(&mut self, from: usize, asked: u64) {
        let Some(clock) = &mut self.clock else { return self.early_questions.push((from, asked)) };
        clock.left = clock.left.saturating_sub(1);
        let time = (clock.now)();
        self.post(from, Record::Time { asked, time });
    }

    pub(super) fn time_answered(&mut self, asked: u64, time: u64) {
        let Some(clock) = self.clock.as_mut().filter(|clock| clock.left > 0) else { return };
        clock.note(asked, time);
        if clock.left > 0 {
            self.ask_time();
        } else if clock.is_last {
            self.leave();
        }
    }
}
