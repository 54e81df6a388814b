//! Conditions on a run, such as `idle<10%`, for automated performance tests.
//!
//! A condition is a quantity, a comparison and a limit. The limit's unit selects the dimension of the quantity: for
//! example, `copies` can be a count or a number of bytes. [`failed`] returns the conditions that a run violates.
//! The module never reads files.

use crate::Trace;
use crate::analysis::{Activity, Analysis, NameUse};
use crate::text;
use std::fmt;
use std::str::FromStr;

/// The quantities and units, for help texts.
pub const HELP: &str = "\
Quantities:
  computing, runtime, program, dependence, copy, memory, unit, submission
                      parts of the units' time, in % of it or as a time
  idle                the sum of those from `dependence` to `submission`, likewise
  makespan            from the first submission to the last end
  critical            the longest path through dependences, in % of the makespan or as a time
  wait-p50, wait-p99  the delay from ready to start
  tasks, failed, unrun, dependences
                      numbers of tasks, of failed ones, of those that did not run, and of dependences
  copies, evicted     copies between memories, and those that made room: as a number or in bytes
  problems            1 if the file could not be read to its end, otherwise 0
  count(NAME), failed(NAME), unrun(NAME), total(NAME), mean(NAME), p50(NAME), p99(NAME), max(NAME), wait-p50(NAME),
  wait-p99(NAME)      the same of the tasks of one name; `total` to `max` are durations of bodies
Comparisons: <  <=  >  >=  =  !=
Units: %  ns us ms s min  B KiB MiB GiB TiB kB MB GB TB; none for numbers";

/// The dimension of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dimension {
    Percent,
    Time,
    Bytes,
    Number,
}

impl Dimension {
    const fn name(self) -> &'static str {
        match self {
            Self::Percent => "a share in %",
            Self::Time => "a time",
            Self::Bytes => "bytes",
            Self::Number => "a number",
        }
    }

    fn show(self, value: f64) -> String {
        match self {
            Self::Percent => format!("{value:.2} %"),
            Self::Time => text::duration(value as u64),
            Self::Bytes => text::bytes(value as u64),
            Self::Number => value.to_string(),
        }
    }
}

/// Units of limits, each with its dimension and its size in percent, nanoseconds, bytes or items.
const UNITS: [(&str, Dimension, f64); 17] = [
    ("", Dimension::Number, 1.0),
    ("%", Dimension::Percent, 1.0),
    ("ns", Dimension::Time, 1.0),
    ("us", Dimension::Time, 1e3),
    ("µs", Dimension::Time, 1e3),
    ("ms", Dimension::Time, 1e6),
    ("s", Dimension::Time, 1e9),
    ("min", Dimension::Time, 60e9),
    ("B", Dimension::Bytes, 1.0),
    ("KiB", Dimension::Bytes, 1024.0),
    ("MiB", Dimension::Bytes, 1048576.0),
    ("GiB", Dimension::Bytes, 1073741824.0),
    ("TiB", Dimension::Bytes, 1099511627776.0),
    ("kB", Dimension::Bytes, 1e3),
    ("MB", Dimension::Bytes, 1e6),
    ("GB", Dimension::Bytes, 1e9),
    ("TB", Dimension::Bytes, 1e12),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Less,
    AtMost,
    More,
    AtLeast,
    Equal,
    Unequal,
}

/// The comparison signs. Longer signs come before their own prefixes, because the first match wins.
const COMPARISONS: [(&str, Comparison); 7] = [
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("!=", Comparison::Unequal),
    ("==", Comparison::Equal),
    ("<", Comparison::Less),
    (">", Comparison::More),
    ("=", Comparison::Equal),
];

impl Comparison {
    fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Self::Less => value < limit,
            Self::AtMost => value <= limit,
            Self::More => value > limit,
            Self::AtLeast => value >= limit,
            Self::Equal => value == limit,
            Self::Unequal => value != limit,
        }
    }
}

/// The left side of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Quantity {
    Share(Activity),
    Idle,
    Makespan,
    Critical,
    WaitP50,
    WaitP99,
    Tasks,
    Failed,
    Unrun,
    Dependences,
    Copies,
    Evicted,
    Problems,
    Name(OfName, String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OfName {
    Count,
    Failed,
    Unrun,
    Total,
    Mean,
    P50,
    P99,
    Max,
    WaitP50,
    WaitP99,
}

const OF_NAME: [(&str, OfName); 10] = [
    ("count", OfName::Count),
    ("failed", OfName::Failed),
    ("unrun", OfName::Unrun),
    ("total", OfName::Total),
    ("mean", OfName::Mean),
    ("p50", OfName::P50),
    ("p99", OfName::P99),
    ("max", OfName::Max),
    ("wait-p50", OfName::WaitP50),
    ("wait-p99", OfName::WaitP99),
];

impl OfName {
    fn of(self, name: &NameUse) -> (u64, Dimension) {
        match self {
            Self::Count => (name.count, Dimension::Number),
            Self::Failed => (name.failed, Dimension::Number),
            Self::Unrun => (name.unrun, Dimension::Number),
            Self::Total => (name.total, Dimension::Time),
            Self::Mean => (name.mean, Dimension::Time),
            Self::P50 => (name.p50, Dimension::Time),
            Self::P99 => (name.p99, Dimension::Time),
            Self::Max => (name.max, Dimension::Time),
            Self::WaitP50 => (name.wait_p50, Dimension::Time),
            Self::WaitP99 => (name.wait_p99, Dimension::Time),
        }
    }
}

const QUANTITIES: [(&str, Quantity); 12] = [
    ("idle", Quantity::Idle),
    ("makespan", Quantity::Makespan),
    ("critical", Quantity::Critical),
    ("wait-p50", Quantity::WaitP50),
    ("wait-p99", Quantity::WaitP99),
    ("tasks", Quantity::Tasks),
    ("failed", Quantity::Failed),
    ("unrun", Quantity::Unrun),
    ("dependences", Quantity::Dependences),
    ("copies", Quantity::Copies),
    ("evicted", Quantity::Evicted),
    ("problems", Quantity::Problems),
];

impl Quantity {
    fn parse(text: &str) -> Result<Self, String> {
        if let Some((quantity, name)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
            let known = OF_NAME.iter().find(|(known, _)| *known == quantity.trim());
            return known.map(|(_, known)| Self::Name(*known, name.to_owned())).ok_or_else(|| {
                let names: Vec<&str> = OF_NAME.iter().map(|(name, _)| *name).collect();
                format!("no quantity of a task name is called `{quantity}`; try one of {}", names.join(", "))
            });
        }
        let share = Activity::ALL.into_iter().find(|activity| activity.name() == text).map(Self::Share);
        let other = || QUANTITIES.iter().find(|(name, _)| *name == text).map(|(_, quantity)| quantity.clone());
        share.or_else(other).ok_or_else(|| {
            let shares = Activity::ALL.into_iter().map(Activity::name);
            let names: Vec<&str> = shares.chain(QUANTITIES.iter().map(|(name, _)| *name)).collect();
            format!("no quantity is called `{text}`; try one of {}, or such as mean(NAME)", names.join(", "))
        })
    }

    /// Returns the dimensions that limits on this quantity may have.
    fn dimensions(&self) -> Vec<Dimension> {
        match self {
            Self::Share(_) | Self::Idle | Self::Critical => vec![Dimension::Percent, Dimension::Time],
            Self::Makespan | Self::WaitP50 | Self::WaitP99 => vec![Dimension::Time],
            Self::Copies | Self::Evicted => vec![Dimension::Bytes, Dimension::Number],
            Self::Tasks | Self::Failed | Self::Unrun | Self::Dependences | Self::Problems => vec![Dimension::Number],
            Self::Name(of, _) => vec![of.of(&NameUse::default()).1],
        }
    }

    /// Returns the quantity's value in a run, in the given dimension; `None` if the quantity names a task that does
    /// not occur.
    fn of(&self, trace: &Trace, analysis: &Analysis, dimension: Dimension) -> Option<f64> {
        let part = |time: u64, whole: u64| match dimension {
            Dimension::Percent => text::percent(time, whole),
            _ => time as f64,
        };
        let evictions = || trace.copies.iter().filter(|copy| copy.evicts).count();
        Some(match self {
            Self::Share(activity) => part(analysis.shares.get(*activity), analysis.unit_time()),
            Self::Idle => part(analysis.shares.idle(), analysis.unit_time()),
            Self::Critical => part(analysis.critical_ns, analysis.makespan()),
            Self::Makespan => analysis.makespan() as f64,
            Self::WaitP50 => analysis.wait_p50 as f64,
            Self::WaitP99 => analysis.wait_p99 as f64,
            Self::Tasks => trace.tasks.len() as f64,
            Self::Failed => analysis.failed() as f64,
            Self::Unrun => analysis.unrun() as f64,
            Self::Dependences => trace.dependences.len() as f64,
            Self::Copies if dimension == Dimension::Bytes => analysis.copied().0 as f64,
            Self::Copies => trace.copies.len() as f64,
            Self::Evicted if dimension == Dimension::Bytes => analysis.copied().1 as f64,
            Self::Evicted => evictions() as f64,
            Self::Problems => f64::from(u8::from(trace.problem.is_some())),
            Self::Name(of, name) => {
                let name = analysis.names.iter().find(|known| known.name == *name)?;
                of.of(name).0 as f64
            }
        })
    }
}

/// A condition on a run: see [`HELP`].
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    text: String,
    quantity: Quantity,
    comparison: Comparison,
    limit: f64,
    dimension: Dimension,
}

/// The reason why a text is not a valid condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot check `{text}`: {problem}")]
pub struct ConditionError {
    text: String,
    problem: String,
}

impl FromStr for Condition {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Self, ConditionError> {
        Self::parse(text).map_err(|problem| ConditionError { text: text.to_owned(), problem })
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Condition {
    fn parse(text: &str) -> Result<Self, String> {
        // A name in parentheses may contain any character, including a comparison sign.
        let after_name = text.rfind(')').map_or(0, |at| at + 1);
        let at = text[after_name..].find(['<', '>', '=', '!']).map(|at| after_name + at);
        let at = at.ok_or("it compares nothing; try a condition such as idle<10%")?;
        let found = COMPARISONS.iter().find(|(sign, _)| text[at..].starts_with(sign));
        let (sign, comparison) = found.ok_or("`!` is no comparison; try != or another one")?;
        let quantity = Quantity::parse(text[..at].trim())?;
        let limit = text[at + sign.len()..].trim();
        let unit = limit.find(|letter: char| letter.is_alphabetic() || letter == '%').unwrap_or(limit.len());
        let (number, unit) = (limit[..unit].trim(), limit[unit..].trim());
        let number: f64 =
            number.parse().ok().filter(|number: &f64| number.is_finite()).ok_or_else(|| {
                format!("`{limit}` does not begin with a number; try a limit such as 10%, 2s, 1GiB or 0")
            })?;
        let known = UNITS.iter().find(|(known, ..)| *known == unit);
        let (_, dimension, size) = *known.ok_or_else(|| {
            let names: Vec<&str> = UNITS.iter().map(|(name, ..)| *name).filter(|name| !name.is_empty()).collect();
            format!("`{unit}` is no unit; try one of {}", names.join(" "))
        })?;
        let possible = quantity.dimensions();
        if !possible.contains(&dimension) {
            let possible: Vec<&str> = possible.into_iter().map(Dimension::name).collect();
            return Err(format!("its limit is {}; try {}", dimension.name(), possible.join(" or ")));
        }
        Ok(Self { text: text.to_owned(), quantity, comparison: *comparison, limit: number * size, dimension })
    }
}

/// A violated condition.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// The condition.
    pub condition: Condition,
    /// The quantity's value in the run with its unit, or the reason why it has no value.
    pub found: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} does not hold: {}", self.condition, self.found)
    }
}

/// Returns the conditions that a run violates. A condition on a task name that does not occur is violated.
pub fn failed(trace: &Trace, analysis: &Analysis, conditions: &[Condition]) -> Vec<Failure> {
    let failure = |condition: &Condition| {
        let found = match condition.quantity.of(trace, analysis, condition.dimension) {
            Some(value) if condition.comparison.holds(value, condition.limit) => return None,
            Some(value) => format!("it is {}", condition.dimension.show(value)),
            None => "no task has this name".to_owned(),
        };
        Some(Failure { condition: condition.clone(), found })
    };
    conditions.iter().filter_map(failure).collect()
}
