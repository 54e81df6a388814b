//! One schedule: its name, the decisions and memory that belong to it, and a run of a program under it.

use super::{AnyUnit, Strategy, UNITS};
use crate::device::EmulatedDevice;
use crate::error::FailureReason;
use crate::explore::{Choices, Draw, Plan, Record};
use crate::runtime::{Builder, Runtime};
use crate::sync::start_scoped;
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use std::sync::Arc;

/// Prefix of the names of listed schedules.
const LIST: &str = "path:";

/// A schedule of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Schedule {
    /// Drawn from this seed.
    Seed(u64),
    /// These decisions; without any of them, the order of submission.
    Listed(Vec<usize>),
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seed(seed) => write!(f, "{seed}"),
            Self::Listed(listed) => {
                let listed: Vec<String> = listed.iter().map(usize::to_string).collect();
                write!(f, "{LIST}{}", listed.join("."))
            }
        }
    }
}

impl FromStr for Schedule {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name.trim().strip_prefix(LIST) {
            None => name.trim().parse().map(Self::Seed).map_err(|_| "it is neither a seed nor a path"),
            Some("") => Ok(Self::Listed(Vec::new())),
            Some(listed) => {
                let listed: Result<_, _> = listed.split('.').map(str::parse).collect();
                listed.map(Self::Listed).map_err(|_| "a path consists of numbers with dots between them")
            }
        }
    }
}

/// The memory and the faults of each emulated device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Memory {
    capacity_bytes: u64,
    holds_bytes: u64,
    fault: Option<(Fault, u64)>,
}

/// A scripted fault. Its number says which task, copy or allocation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Loss,
    Copy,
    Allocation,
}

impl Schedule {
    /// Returns how the decisions of this schedule are made. `first` is the record of the first schedule.
    pub(super) fn plan(&self, strategy: Strategy, first: &Record) -> Plan {
        let seed = match self {
            Self::Listed(listed) => return Plan::Listed(listed.clone()),
            Self::Seed(seed) => *seed,
        };
        let steps = first.asked;
        match strategy {
            Strategy::Priorities { changes } => Plan::Priorities { seed, changes, steps },
            Strategy::Mixed if seed % 2 == 1 => Plan::Priorities { seed, changes: 2, steps },
            Strategy::Mixed | Strategy::Random | Strategy::Exhaustive => {
                let delays = [0, 1, 4, 12][Draw::new(!seed).below(4)];
                Plan::Random { seed, delays }
            }
        }
    }

    /// Returns the devices' memory under this schedule. It holds the largest task of the `first` schedule.
    pub(super) fn memory(&self, first: &Record, faults: bool) -> Memory {
        let mut memory = Memory { capacity_bytes: u64::MAX, holds_bytes: u64::MAX, fault: None };
        let Self::Seed(seed) = self else { return memory };
        let mut draw = Draw::new(seed.rotate_left(32) ^ 1);
        let least = first.largest_task_bytes.max(1);
        let more = |draw: &mut Draw| least.saturating_add(least.saturating_mul(draw.below(9) as u64) / 4);
        if draw.below(2) == 0 {
            memory.capacity_bytes = more(&mut draw);
        }
        if draw.below(4) == 0 {
            memory.holds_bytes = more(&mut draw);
        }
        if faults && draw.below(3) > 0 {
            let fault = [Fault::Loss, Fault::Copy, Fault::Allocation][draw.below(3)];
            memory.fault = Some((fault, draw.below(first.asked as usize + 2) as u64));
        }
        memory
    }
}

impl Memory {
    fn of(self, device: EmulatedDevice) -> EmulatedDevice {
        let device = device.explored(self.capacity_bytes, self.holds_bytes);
        match self.fault {
            None => device,
            Some((Fault::Loss, number)) => device.lost_after_tasks(number),
            Some((Fault::Copy, number)) => device.failing_copy(number),
            Some((Fault::Allocation, number)) => device.refused_allocation(number),
        }
    }
}

/// Runs a program under one schedule, on a new thread. Returns the program's value, or the reason why the
/// schedule fails, and the record.
pub(super) fn run<T: Send>(
    configure: &(dyn Fn(Builder) -> Builder + Sync),
    plan: Plan,
    memory: Memory,
    faults: bool,
    program: &(impl Fn(&Runtime) -> T + Sync),
) -> (Result<T, String>, Record) {
    let choices = Arc::new(Choices::new(plan));
    if memory != (Memory { capacity_bytes: u64::MAX, holds_bytes: u64::MAX, fault: None }) {
        choices.note(format_args!("devices have {memory:?}"));
    }
    let run = || {
        let policy = AnyUnit::new(choices.clone());
        let builder = configure(Runtime::builder().compute_units(UNITS));
        let builder = builder.explored(choices.clone(), Box::new(policy), move |device| memory.of(device));
        let rt = builder.build().map_err(|error| error.to_string())?;
        let value = catch_unwind(AssertUnwindSafe(|| program(&rt))).map_err(message);
        let ended = catch_unwind(AssertUnwindSafe(|| rt.shutdown())).map_err(message);
        let value = value?;
        match ended? {
            Err(error) if !faults => Err(format!("the program has not noticed this: {error}")),
            _ => Ok(value),
        }
    };
    // A thread's state depends on the schedules that it has run before, such as the stacks that it keeps.
    let value = std::thread::scope(|scope| {
        let thread = start_scoped(std::thread::Builder::new().name("explore".to_owned()), scope, run);
        match thread.map(|thread| thread.join()) {
            Ok(Ok(value)) => value,
            Ok(Err(payload)) => Err(message(payload)),
            Err(error) => Err(format!("cannot start a thread: {error}")),
        }
    });
    (value, choices.take_record())
}

/// Returns the message of a panic.
fn message(payload: Box<dyn Any + Send>) -> String {
    match FailureReason::from_panic(payload) {
        FailureReason::Panicked(message) => message,
        reason => reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_schedules_are_read_back() {
        for schedule in [Schedule::Seed(u64::MAX), Schedule::Listed(vec![]), Schedule::Listed(vec![0, 12, 3])] {
            assert_eq!(schedule.to_string().parse(), Ok(schedule));
        }
        for wrong in ["", "-1", "path:1.", "path:a", "1.2"] {
            assert!(wrong.parse::<Schedule>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn devices_hold_the_largest_task_under_every_seed() {
        let first = Record { largest_task_bytes: 1000, asked: 5, ..Record::default() };
        let all: Vec<Memory> = (0..200).map(|seed| Schedule::Seed(seed).memory(&first, true)).collect();
        assert!(all.iter().all(|memory| memory.capacity_bytes >= 1000 && memory.holds_bytes >= 1000));
        assert!(all.iter().any(|memory| memory.capacity_bytes == 1000));
        assert!(all.iter().any(|memory| memory.holds_bytes < memory.capacity_bytes));
        assert!(all.iter().any(|memory| memory.fault.is_some()));
        assert!((0..200).all(|seed| Schedule::Seed(seed).memory(&first, false).fault.is_none()));
    }
}
