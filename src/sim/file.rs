//! The text format of a machine file: the keys and the values they take.
//!
//! Every check of a single value is part of the value's type, so the parser's error includes the line of the value.
//! Checks that involve several values are in [`super::machine`]. The format is documented at
//! [`SimulatedMachine`](super::SimulatedMachine).

use crate::machine::UnitKind;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use toml::Spanned;

/// The contents of a machine file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) name: String,
    #[serde(default)]
    pub(super) noise: NoiseTable,
    pub(super) static_w: Option<NotNegative>,
    pub(super) units: Spanned<BTreeMap<Kind, UnitsTable>>,
    #[serde(default)]
    pub(super) links: Vec<LinkTable>,
    #[serde(default)]
    pub(super) tasks: Vec<TaskTable>,
    #[serde(default)]
    pub(super) speeds: Vec<SpeedTable>,
}

/// A change of the speed of units at some time.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SpeedTable {
    pub(super) at_ns: NotNegative,
    pub(super) kind: Spanned<Kind>,
    pub(super) unit: Option<usize>,
    pub(super) speed: Positive,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoiseTable {
    pub(super) seed: u64,
    pub(super) relative_deviation: Fraction,
}

/// The cores or devices of one kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UnitsTable {
    pub(super) count: Spanned<usize>,
    pub(super) bytes_per_s: Positive,
    pub(super) total_bytes_per_s: Option<Spanned<Positive>>,
    pub(super) memory_bytes: Option<Spanned<u64>>,
    #[serde(default)]
    pub(super) launch_ns: NotNegative,
    #[serde(default)]
    pub(super) idle_w: NotNegative,
    pub(super) busy_w: Option<Spanned<NotNegative>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkTable {
    pub(super) between: Spanned<[End; 2]>,
    pub(super) latency_ns: NotNegative,
    pub(super) bytes_per_s: Positive,
    #[serde(default)]
    pub(super) shared: bool,
    #[serde(default = "yes")]
    pub(super) duplex: bool,
    pub(super) switch: Option<Spanned<SwitchTable>>,
}

/// A switch that joins all devices of a kind, instead of a link for each pair.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SwitchTable {
    pub(super) per_leaf: Option<NonZeroUsize>,
    pub(super) uplink_bytes_per_s: Option<Positive>,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskTable {
    pub(super) name: Spanned<String>,
    pub(super) cost: Option<Spanned<Positive>>,
    pub(super) bytes: Option<Positive>,
    pub(super) time_ns: BTreeMap<Kind, Spanned<BTreeMap<Busy, Positive>>>,
    #[serde(default)]
    pub(super) speed_up: BTreeMap<Busy, Positive>,
}

/// Figures are 0 or between 1 / `MOST` and `MOST`, so that quotients of two figures and sums of times stay finite.
const MOST: f64 = 1e18;

fn in_range(value: f64) -> Result<f64, String> {
    let is_right = value == 0.0 || (1.0 / MOST..=MOST).contains(&value);
    is_right.then_some(value).ok_or_else(|| format!("{value:e} is not a number from {:e} to {MOST:e}", 1.0 / MOST))
}

/// A finite number above 0.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "f64")]
pub(super) struct Positive(pub(super) f64);

impl TryFrom<f64> for Positive {
    type Error = String;

    fn try_from(value: f64) -> Result<Self, String> {
        let right = value > 0.0 && value.is_finite();
        let above = right.then_some(value).ok_or_else(|| format!("{value} is not a finite number above 0"))?;
        in_range(above).map(Self)
    }
}

/// A finite number of at least 0.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(try_from = "f64")]
pub(super) struct NotNegative(pub(super) f64);

impl TryFrom<f64> for NotNegative {
    type Error = String;

    fn try_from(value: f64) -> Result<Self, String> {
        let right = value >= 0.0 && value.is_finite();
        let from_0 = right.then_some(value).ok_or_else(|| format!("{value} is not a finite number of at least 0"))?;
        in_range(from_0).map(Self)
    }
}

/// A number from 0 to 1.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(try_from = "f64")]
pub(super) struct Fraction(pub(super) f64);

impl TryFrom<f64> for Fraction {
    type Error = String;

    fn try_from(value: f64) -> Result<Self, String> {
        (0.0..=1.0).contains(&value).then_some(Self(value)).ok_or_else(|| format!("{value} is not between 0 and 1"))
    }
}

/// A unit kind, given by its keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Kind(pub(super) UnitKind);

impl TryFrom<String> for Kind {
    type Error = String;

    fn try_from(word: String) -> Result<Self, String> {
        UnitKind::from_keyword(&word).map(Self).ok_or_else(|| {
            let known: Vec<_> = UnitKind::ALL.iter().map(|kind| kind.keyword()).collect();
            format!("`{word}` is not a kind of unit; the kinds are {}", known.join(", "))
        })
    }
}

/// One end of a link: the host, or the devices of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct End(pub(super) Option<UnitKind>);

impl TryFrom<String> for End {
    type Error = String;

    fn try_from(word: String) -> Result<Self, String> {
        if word == "host" {
            return Ok(Self(None));
        }
        let Kind(kind) = Kind::try_from(word).map_err(|error| format!("{error}; or `host`"))?;
        kind.is_device().then_some(Self(Some(kind))).ok_or_else(|| format!("{kind} units work in the `host`'s memory"))
    }
}

/// A number of units or cores, used as a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Busy(pub(super) u32);

impl TryFrom<String> for Busy {
    type Error = String;

    fn try_from(word: String) -> Result<Self, String> {
        let count = word.parse().ok().filter(|count| *count > 0);
        count.map(Self).ok_or_else(|| format!("`{word}` is not a count; write a whole number, 1 or more"))
    }
}
