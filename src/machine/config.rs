//! The units that a user requests, for example 4 CPU units of 4 cores and 2 units of one GPU.
//!
//! A request is a list of terms, which correspond to the computing unit descriptors of González-Tallada and Morancho,
//! "Compute units in OpenMP: Extensions for heterogeneous parallel programming" (2024), section 3.2.1. `config_parse`
//! parses them.
//!
//! This module never inspects the machine: [`Machine::plan`](super::Machine::plan) decides whether the units can
//! exist.
//!
//! Invariants of a [`UnitConfig`]: there is at least one term; each count and each size is at least 1; there are at
//! most [`MAX_UNITS`] units and [`MAX_DEVICES`] devices, and each unit's size is at most [`MAX_UNIT_SIZE`]. The text
//! of a configuration parses back to an equal configuration.

use super::error::{ConfigError, field};
use super::kind::{MAX_DEVICES, MAX_UNIT_SIZE, MAX_UNITS, UnitKind};
use std::fmt;

/// One term `count:KIND:size` of a configuration.
///
/// ```
/// use thalweg::machine::{UnitConfig, UnitKind, UnitTerm};
/// let config: UnitConfig = "4:CPU:4,2:EMU:1".parse()?;
/// assert_eq!(config.terms()[1], UnitTerm { count: 2, kind: UnitKind::Emulated, size: 1 });
/// assert_eq!(config.terms()[0].to_string(), "4:CPU:4");
/// # Ok::<(), thalweg::machine::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UnitTerm {
    /// The number of units.
    pub count: usize,
    /// The kind of unit.
    pub kind: UnitKind,
    /// The number of cores in each CPU unit, or of devices in each device unit.
    pub size: usize,
}

impl fmt::Display for UnitTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.count, self.kind, self.size)
    }
}

/// The units that a program requests: a list of terms, in the user's order.
///
/// ```
/// use thalweg::machine::UnitConfig;
/// let config: UnitConfig = "4 :: cpu :: 4, 2:GPU:1".parse()?;
/// assert_eq!(config.to_string(), "4:CPU:4,2:GPU:1");
/// assert_eq!(config, "4x4+2".parse()?);
/// assert_eq!((config.num_units(), config.num_devices()), (6, 2));
/// # Ok::<(), thalweg::machine::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UnitConfig {
    terms: Vec<UnitTerm>,
}

impl UnitConfig {
    /// Creates a configuration from these terms.
    ///
    /// # Errors
    ///
    /// Returns an error if there are no terms, a count or size is zero, or there are more than 1024 units, 1024
    /// devices, or 1024 cores or devices in a unit.
    pub fn new(terms: Vec<UnitTerm>) -> Result<Self, ConfigError> {
        if terms.is_empty() {
            return Err(ConfigError::Empty);
        }
        for (position, term) in (1..).zip(&terms) {
            check_term(term, position)?;
        }
        let config = Self { terms };
        let (mut units, mut devices) = (0, 0);
        for (position, term) in (1..).zip(&config.terms) {
            units += term.count;
            if units > MAX_UNITS {
                return Err(ConfigError::TooManyUnits { term: term.to_string(), position, units: config.num_units() });
            }
            devices += devices_of(term);
            if devices > MAX_DEVICES {
                return Err(ConfigError::TooManyDevices {
                    term: term.to_string(),
                    position,
                    devices: config.num_devices(),
                });
            }
        }
        Ok(config)
    }

    /// Returns the terms, in the order given.
    pub fn terms(&self) -> &[UnitTerm] {
        &self.terms
    }

    /// Returns the total number of units in all terms.
    pub fn num_units(&self) -> usize {
        self.terms.iter().map(|term| term.count).sum()
    }

    /// Returns the total number of devices in all units.
    pub fn num_devices(&self) -> usize {
        self.terms.iter().map(devices_of).sum()
    }
}

/// Checks that the count and the size of a term are within the limits for a single term.
fn check_term(term: &UnitTerm, position: usize) -> Result<(), ConfigError> {
    for (field, value, limit) in [(field::COUNT, term.count, MAX_UNITS), (field::SIZE, term.size, MAX_UNIT_SIZE)] {
        let term = term.to_string();
        if value == 0 {
            return Err(ConfigError::Zero { term, position, field });
        }
        if value > limit {
            return Err(ConfigError::NumberTooLarge { term, position, field });
        }
    }
    Ok(())
}

fn devices_of(term: &UnitTerm) -> usize {
    if term.kind.is_device() { term.count * term.size } else { 0 }
}

impl fmt::Display for UnitConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, term) in self.terms.iter().enumerate() {
            write!(f, "{}{term}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn term(count: usize, kind: UnitKind, size: usize) -> UnitTerm {
        UnitTerm { count, kind, size }
    }

    fn error(terms: &[UnitTerm]) -> ConfigError {
        UnitConfig::new(terms.to_vec()).unwrap_err()
    }

    #[test]
    fn empty_configuration_is_refused() {
        assert_eq!(error(&[]), ConfigError::Empty);
    }

    #[test]
    fn zero_count_or_size_is_refused() {
        for (count, size, field) in [(0, 1, field::COUNT), (1, 0, field::SIZE)] {
            let e = error(&[term(1, UnitKind::Cpu, 1), term(count, UnitKind::Gpu, size)]);
            let term = format!("{count}:GPU:{size}");
            let text = format!("term 2 (`{term}`): the {field} is zero; write 1 or more, or drop the term");
            assert_eq!(e.to_string(), text);
            assert_eq!(e, ConfigError::Zero { term, position: 2, field });
        }
    }

    #[test]
    fn count_or_size_above_limit_is_refused() {
        for (count, size, field, limit) in [
            (MAX_UNITS + 1, 1, field::COUNT, MAX_UNITS),
            (usize::MAX, usize::MAX, field::COUNT, MAX_UNITS),
            (1, MAX_UNIT_SIZE + 1, field::SIZE, MAX_UNIT_SIZE),
        ] {
            let e = error(&[term(count, UnitKind::Cpu, size)]);
            let text = format!("the {field} is too large; it can be at most {limit}");
            assert!(e.to_string().ends_with(&text), "{e}");
            assert!(matches!(e, ConfigError::NumberTooLarge { position: 1, field: f, .. } if f == field));
        }
        UnitConfig::new(vec![term(MAX_UNITS, UnitKind::Cpu, MAX_UNIT_SIZE)]).unwrap();
    }

    #[test]
    fn units_are_limited_in_total() {
        let cpu = |count| term(count, UnitKind::Cpu, 1);
        UnitConfig::new(vec![cpu(1000), cpu(24)]).unwrap();
        let e = error(&[cpu(1000), cpu(25), cpu(5)]);
        let expected = ConfigError::TooManyUnits { term: "25:CPU:1".into(), position: 2, units: 1030 };
        assert_eq!(e, expected);
        assert!(e.to_string().contains("at most 1024"), "{e}");
    }

    #[test]
    fn devices_are_limited_in_total() {
        let emu = |count, size| term(count, UnitKind::Emulated, size);
        assert_eq!(UnitConfig::new(vec![emu(2, 512)]).unwrap().num_devices(), MAX_DEVICES);
        let e = error(&[term(4, UnitKind::Cpu, 4), emu(2, 512), emu(1, 1)]);
        let expected = ConfigError::TooManyDevices { term: "1:EMU:1".into(), position: 3, devices: 1025 };
        assert_eq!(e, expected);
    }

    #[test]
    fn cores_do_not_count_as_devices() {
        let config =
            UnitConfig::new(vec![term(2, UnitKind::Gpu, 3), term(4, UnitKind::Cpu, 8), term(1, UnitKind::Fpga, 1)]);
        let config = config.unwrap();
        assert_eq!((config.num_units(), config.num_devices()), (7, 7));
        assert_eq!(config.to_string(), "2:GPU:3,4:CPU:8,1:FPGA:1");
    }

    proptest! {
        #[test]
        fn text_parses_back(terms in prop::collection::vec(
            (1usize..=8, prop::sample::select(&UnitKind::ALL[..]), 1usize..=8), 1..=16,
        )) {
            let terms = terms.into_iter().map(|(count, kind, size)| term(count, kind, size));
            let config = UnitConfig::new(terms.collect()).unwrap();
            let text = config.to_string();
            prop_assert_eq!(text.parse::<UnitConfig>().unwrap(), config.clone());
            let sloppy = text.to_lowercase().replace(':', " :: ").replace(',', " , ");
            prop_assert_eq!(sloppy.parse::<UnitConfig>().unwrap(), config);
        }

        #[test]
        fn any_text_gives_a_configuration_or_an_error(text in "[0-9xX×+:, CPUGgz-]{0,24}") {
            if let Ok(config) = text.parse::<UnitConfig>() {
                prop_assert_eq!(config.to_string().parse::<UnitConfig>(), Ok(config));
            }
        }
    }
}
