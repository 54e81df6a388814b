//! Uniformity: a rolling hash of the submissions, and a log that finds the first that differs between ranks.
//!
//! Every rank must submit the same sequence. Each submission is hashed with its name, place and accesses. A message
//! carries the hash of the task for which it is sent, and a collective call the rolling hash of all submissions. If two
//! ranks disagree, rank 0 collects the logs of all ranks and names the first difference.

use crate::wire::Entry;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::panic::Location;

/// Submissions that a rank remembers.
const LOGGED: usize = 4096;

/// The latest submissions of a rank.
#[derive(Default)]
pub(crate) struct Log(VecDeque<(u64, u64, Cow<'static, str>, Option<&'static Location<'static>>)>);

impl Log {
    pub(crate) fn push(&mut self, index: u64, hash: u64, name: Cow<'static, str>, place: &'static Location<'static>) {
        if self.0.len() == LOGGED {
            self.0.pop_front();
        }
        self.0.push_back((index, hash, name, Some(place)));
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        let entry =
            |(index, hash, name, place): &(u64, u64, Cow<'static, str>, Option<&'static Location<'static>>)| Entry {
                index: *index,
                hash: *hash,
                name: name.to_string(),
                place: place.map(ToString::to_string).unwrap_or_default(),
            };
        self.0.iter().map(entry).collect()
    }
}

/// Returns a hash of these values that is the same on every rank.
pub(crate) fn hash(values: impl Hash) -> u64 {
    let mut hasher = rustc_hash::FxHasher::default();
    values.hash(&mut hasher);
    hasher.finish()
}

/// Describes the first difference between the logs of all ranks; `None` if there is none.
///
/// All logs are compared with the longest. A rank that only lags has not submitted another task, so a missing
/// submission counts only if no two differ, and then that of the rank that has come farthest.
pub(crate) fn first_difference(logs: &[Option<Vec<Entry>>]) -> Option<String> {
    let known = || logs.iter().enumerate().filter_map(|(rank, log)| Some((rank, log.as_ref()?)));
    let end = |log: &[Entry]| log.last().map_or(0, |entry| entry.index + 1);
    let begin = |log: &[Entry]| log.first().map_or(0, |entry| entry.index);
    let find = |log: &[Entry], index: u64| log.get(usize::try_from(index - begin(log)).ok()?).cloned();
    let (base, longest) = known().max_by_key(|(rank, log)| (end(log), std::cmp::Reverse(*rank)))?;
    let (mut differs, mut missing) = (None::<(u64, usize)>, None::<(u64, usize)>);
    for (rank, log) in known().filter(|(rank, _)| *rank != base) {
        let mut common = begin(log).max(begin(longest))..end(log).min(end(longest));
        let hash = |log, index| find(log, index).map(|entry: Entry| entry.hash);
        if let Some(index) = common.find(|index| hash(log, *index) != hash(longest, *index)) {
            differs = Some(differs.unwrap_or((index, rank)).min((index, rank)));
        } else if end(log) < end(longest) {
            missing = Some(missing.unwrap_or((end(log), rank)).max((end(log), rank)));
        }
    }
    let (index, rank) = differs.or(missing)?;
    let name = |rank: usize| match logs[rank].as_ref().and_then(|log| find(log, index)) {
        Some(Entry { name, place, .. }) => format!("`{name}` at {place} on rank {rank}"),
        None => format!("missing on rank {rank}"),
    };
    Some(format!("submission {index} is {}, but {}", name(base.min(rank)), name(base.max(rank))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(names: &[&str]) -> Option<Vec<Entry>> {
        let mut rolling = 0;
        let entry = |(index, name): (usize, &&str)| {
            rolling = hash((rolling, name));
            Entry { index: index as u64, hash: rolling, name: name.to_string(), place: "x.rs:1:1".into() }
        };
        Some(names.iter().enumerate().map(entry).collect())
    }

    #[test]
    fn first_difference_is_found_among_all_ranks() {
        assert_eq!(first_difference(&[log(&["a", "b"]), None, log(&["a", "b"])]), None);
        let logs = [log(&["a", "b", "c"]), log(&["a", "b", "d"]), log(&["a", "x", "c"])];
        let text = "submission 1 is `b` at x.rs:1:1 on rank 0, but `x` at x.rs:1:1 on rank 2";
        assert_eq!(first_difference(&logs).unwrap(), text);
        let logs = [log(&[]), log(&["a", "b", "c"]), log(&["a", "b", "d"])];
        let text = "submission 2 is `c` at x.rs:1:1 on rank 1, but `d` at x.rs:1:1 on rank 2";
        assert_eq!(first_difference(&logs).unwrap(), text, "a rank that lags does not differ");
        let logs = [log(&["a"]), log(&["a", "b"]), log(&[])];
        assert_eq!(
            first_difference(&logs).unwrap(),
            "submission 1 is missing on rank 0, but `b` at x.rs:1:1 on rank 1"
        );
    }

    #[test]
    fn log_keeps_the_latest_submissions() {
        let mut log = Log::default();
        for index in 0..LOGGED as u64 + 10 {
            log.push(index, index, "t".into(), Location::caller());
        }
        let entries = log.entries();
        assert_eq!((entries.len(), entries[0].index), (LOGGED, 10));
    }
}
