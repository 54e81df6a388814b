//! Errors and warnings about requested machine configurations.
//!
//! A [`ConfigError`] prevents a machine from being planned. A [`Warning`] accompanies a machine that works, but may
//! be slower than its description suggests. This module prints neither of them: callers decide where messages go.
//!
//! Invariant: every message names the position of the problem in the text (terms are counted from 1) and says what
//! would be correct.

use std::fmt;

use super::kind::{MAX_DEVICES, MAX_UNIT_SIZE, MAX_UNITS, UnitKind};
use crate::ids::UnitId;

/// The names of the parts of a configuration term `count:KIND:size`.
pub(super) mod field {
    /// The number of units.
    pub(in crate::machine) const COUNT: &str = "count";
    /// The kind of unit.
    pub(in crate::machine) const KIND: &str = "kind";
    /// The number of cores (CPU units) or devices (device units) in each unit.
    pub(in crate::machine) const SIZE: &str = "size";
}

/// Error returned when a unit configuration can't be parsed, or can't be planned on this machine.
///
/// ```
/// use thalweg::machine::UnitConfig;
/// let error = "4:CPU:4,2:TPU:1".parse::<UnitConfig>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "term 2 (`2:TPU:1`): unknown kind of unit `TPU`; \
///      the kinds are CPU, EMU, CUDA, HIP, OPENCL, FPGA, GPU"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The text is empty or contains no term.
    #[error("empty unit configuration; write for instance `4:CPU:4,2:EMU:1` or `4x4+2`")]
    Empty,
    /// There are two commas in a row, or a comma at the beginning or end.
    #[error("term {position} is empty; write count:KIND:size there, or drop the comma")]
    EmptyTerm {
        /// Position of the term, counted from 1.
        position: usize,
    },
    /// A term lacks one of its three parts.
    #[error(
        "term {position} (`{term}`) has no {field}; \
         write count:KIND:size as in `4:CPU:4`, or the whole as NxM+G as in `4x4+2`"
    )]
    MissingField {
        /// The term as written.
        term: String,
        /// Position of the term, counted from 1.
        position: usize,
        /// The part that is missing.
        field: &'static str,
    },
    /// A term has more than three parts.
    #[error(
        "term {position} (`{term}`) has more than count:KIND:size; separate terms with commas, as in `4:CPU:4,2:EMU:1`"
    )]
    ExtraField {
        /// The term as written.
        term: String,
        /// Position of the term, counted from 1.
        position: usize,
    },
    /// A count or size is not a whole number.
    #[error("term {position} (`{term}`): the {field} `{text}` is not a whole number; write digits")]
    NotANumber {
        /// The term as written.
        term: String,
        /// Position of the term, counted from 1.
        position: usize,
        /// The part that is wrong.
        field: &'static str,
        /// The wrong part as written.
        text: String,
    },
    /// A count or size is zero.
    #[error("term {position} (`{term}`): the {field} is zero; write 1 or more, or drop the term")]
    Zero {
        /// The term as written.
        term: String,
        /// Position of the term, counted from 1.
        position: usize,
        /// The part that is zero.
        field: &'static str,
    },
    /// A count or size exceeds the limit of one term.
    #[error(
        "term {position} (`{term}`): the {field} is too large; it can be at most {limit}",
        limit = if *field == field::SIZE { MAX_UNIT_SIZE } else { MAX_UNITS }
    )]
    NumberTooLarge {
        /// The term as written.
        term: String,
        /// Position of the term, counted from 1.
        position: usize,
        /// The part that is too large.
        field: &'static str,
    },
    /// There is no such kind of unit.
    #[error(
        "term {position} (`{term}`): unknown kind of unit `{kind}`; the kinds are {}",
        UnitKind::ALL.map(UnitKind::keyword).join(", ")
    )]
    UnknownKind {
        /// The term as written.
        term: String,
        /// Position of the term, counted from 1.
        position: usize,
        /// The kind as written.
        kind: String,
    },
    /// The terms have too many units in total.
    #[error(
        "{units} units in total, and term {position} (`{term}`) exceeds the limit; \
         there can be at most {MAX_UNITS}"
    )]
    TooManyUnits {
        /// The term that exceeds the limit.
        term: String,
        /// Position of the term, counted from 1.
        position: usize,
        /// The total number of units in all terms.
        units: usize,
    },
    /// The terms have too many devices in total.
    #[error(
        "{devices} devices in total, and term {position} (`{term}`) exceeds the limit; \
         there can be at most {MAX_DEVICES}"
    )]
    TooManyDevices {
        /// The term that exceeds the limit.
        term: String,
        /// Position of the term, counted from 1.
        position: usize,
        /// The total number of devices in all terms.
        devices: usize,
    },
    /// The topology contains no cores to place units on.
    #[error("this process may not use any core; a machine needs at least one")]
    NoCores,
    /// `OMP_PLACES` has fewer places than there are units.
    #[error("OMP_PLACES lists {places} places for {units} compute units; list at least {units}, one per unit")]
    TooFewPlaces {
        /// The number of places.
        places: usize,
        /// The number of units.
        units: usize,
    },
    /// A CPU unit's place has a different number of cores than the unit.
    #[error(
        "place {} of OMP_PLACES has {place_size} cores, but CPU {unit} is configured with {unit_size}; \
         make both the same",
        unit.index()
    )]
    PlaceSize {
        /// The unit. Its ID is also the index of its place, counted from 0 as in OpenMP.
        unit: UnitId,
        /// The number of cores in the unit's place.
        place_size: usize,
        /// The number of cores that the configuration specifies for the unit.
        unit_size: usize,
    },
}

/// A problem with a machine that can be planned, but not exactly as described.
///
/// ```
/// use thalweg::machine::{Machine, Topology};
/// let machine = Machine::plan(&"2:CPU:4".parse()?, None, &Topology::with_cores(2))?;
/// assert_eq!(
///     machine.warnings()[0].to_string(),
///     "the configuration asks for 8 cores, but this process may use 2: compute units share cores"
/// );
/// # Ok::<(), thalweg::machine::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// More cores are requested than are available, so cores are assigned round robin.
    SharedCores {
        /// The number of requested cores, including the hosting cores of device units.
        asked: usize,
        /// The number of cores that this process may use.
        available: usize,
    },
    /// A core is listed more than once in the places of the units.
    OverlappingPlaces {
        /// The core.
        core: usize,
        /// The first unit whose place lists it.
        first: UnitId,
        /// The next unit whose place lists it; the same unit if one place lists the core twice.
        second: UnitId,
    },
    /// A place lists a core that this process may not use; threads can't be pinned to it.
    CoreNotAllowed {
        /// The core.
        core: usize,
        /// The unit whose place lists it.
        unit: UnitId,
    },
    /// More cores are in use than the CPU quota allows.
    OverQuota {
        /// The number of distinct cores that the units use.
        cores: usize,
        /// The CPU quota, in whole CPUs.
        quota: usize,
    },
    /// Another runtime, in this process or in another process, has bound its threads to these cores.
    CoresTaken {
        /// The cores that both runtimes use.
        cores: Vec<usize>,
        /// Whether the threads of this runtime are bound to their cores too. They are bound only if that was
        /// requested.
        bound: bool,
    },
    /// Energy meters were requested, but none are available.
    NoEnergyMeter {
        /// The reason for each sort of meter.
        problem: String,
    },
    /// The variable `OMP_PLACES` does not fit the configuration, so it is ignored and the units get consecutive
    /// cores.
    PlacesIgnored {
        /// Describes what is wrong.
        problem: String,
    },
    /// The variable `OMP_PROC_BIND` has an unknown value, so threads are bound as if the variable were not set.
    ProcBindIgnored {
        /// The value of the variable.
        value: String,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SharedCores { asked, available } => write!(
                f,
                "the configuration asks for {asked} cores, but this process may use {available}: \
                 compute units share cores"
            ),
            Self::OverlappingPlaces { core, first, second } => {
                write!(f, "OMP_PLACES lists core {core} more than once, for {first} and {second}: they share it")
            }
            Self::CoreNotAllowed { core, unit } => write!(
                f,
                "OMP_PLACES gives core {core} to {unit}, but this process may not use that core: \
                 its thread can't be pinned"
            ),
            Self::OverQuota { cores, quota } => write!(
                f,
                "the units use {cores} cores, but the CPU quota of this process is {quota}: \
                 the system will throttle them"
            ),
            Self::CoresTaken { cores, bound } => write!(
                f,
                "another runtime has bound its threads to cores {cores:?}, and this one {}; \
                 try fewer units, other cores with Builder::places, or Builder::pin_threads({})",
                if *bound { "binds its own to them too" } else { "leaves its own unbound to share them" },
                !bound,
            ),
            Self::NoEnergyMeter { problem } => {
                write!(f, "no energy meter can be read, so energy is unknown: {problem}")
            }
            Self::PlacesIgnored { problem } => write!(
                f,
                "the environment variable OMP_PLACES is ignored: {problem}; \
                 unset it, or give the places with Builder::places"
            ),
            Self::ProcBindIgnored { value } => write!(
                f,
                "the environment variable OMP_PROC_BIND is ignored: `{value}` is not one of true, false, primary, \
                 close, spread; try one of these, or Builder::pin_threads"
            ),
        }
    }
}
