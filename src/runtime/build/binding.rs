//! Choice of the cores for a runtime's units, and of whether threads are bound to these cores.
//!
//! Calls of the program have precedence over OpenMP's variables; [`CoresTaken::plan`] determines the default. The table
//! at [`Builder::pin_threads`] is the contract. Nothing in this module binds a thread.

use super::super::builder::Builder;
use super::environment;
use super::parts::places_error;
use crate::error::BuildError;
use crate::machine::{
    AbstractPlaces, ConfigError, CoresTaken, Granule, Machine, Places, Topology, UnitConfig, Warning,
};

/// A machine, and the binding of its units' threads.
pub(super) struct Bound {
    pub(super) machine: Machine,
    /// The claim on the cores that threads are bound to.
    pub(super) cores: Option<CoresTaken>,
    /// The cores that each unit's threads are bound to; `None` if threads are not bound.
    pub(super) bindings: Option<Vec<Vec<usize>>>,
}

/// A list of places, or an abstract name.
type Where = (Option<Places>, Granule);

impl Builder {
    /// Returns the cores that the units may use: those of this process, or of the first places if an abstract name
    /// with a number of them is set.
    pub(super) fn usable(&self, topology: Topology) -> Topology {
        let from_environment =
            || environment::text("OMP_PLACES").filter(|_| self.asked(&mut Vec::new()) != Some(false));
        let text = self.places.clone().or_else(from_environment);
        match text.and_then(|text| text.parse::<AbstractPlaces>().ok()) {
            Some(places) => places.limit(topology),
            None => topology,
        }
    }

    /// Returns whether the program or `OMP_PROC_BIND` requests binding.
    fn asked(&self, ignored: &mut Vec<Warning>) -> Option<bool> {
        let asked = self.pin_threads.or(self.places.as_ref().map(|_| true));
        asked.or_else(|| proc_bind(ignored))
    }

    /// Plans the machine on the cores of this process, and the binding of its threads.
    pub(super) fn bind(&self, config: &UnitConfig, topology: &Topology) -> Result<Bound, BuildError> {
        let mut ignored = Vec::new();
        let asked = self.asked(&mut ignored);
        let plan = |asked, place: &Where| plan(config, topology, asked, place);
        if let Some(text) = &self.places {
            return Ok(plan(asked, &read(text).map_err(places_error)?)?);
        }
        let nowhere = (None, Granule::Threads);
        let mut bound = match environment::text("OMP_PLACES").filter(|_| asked != Some(false)) {
            None => plan(asked, &nowhere)?,
            Some(text) => {
                let place = read(&text).map_err(|error| error.to_string());
                match place.and_then(|place| plan(Some(true), &place).map_err(|error| error.to_string())) {
                    Ok(bound) => bound,
                    // The variable may have been set for another program.
                    Err(problem) => {
                        ignored.push(Warning::PlacesIgnored { problem });
                        plan(asked, &nowhere)?
                    }
                }
            }
        };
        ignored.into_iter().for_each(|warning| bound.machine.warn(warning));
        Ok(bound)
    }
}

fn read(text: &str) -> Result<Where, crate::machine::PlacesError> {
    match text.parse() {
        Ok(AbstractPlaces { granule, .. }) => Ok((None, granule)),
        Err(()) => Ok((Some(text.parse()?), Granule::Threads)),
    }
}

/// Returns whether `OMP_PROC_BIND` requests binding. If the variable is a list, with one value for each nesting level,
/// the first value counts.
fn proc_bind(ignored: &mut Vec<Warning>) -> Option<bool> {
    let value = environment::text("OMP_PROC_BIND")?;
    match &*value.split(',').next()?.trim().to_ascii_lowercase() {
        "false" => Some(false),
        "true" | "primary" | "master" | "close" | "spread" => Some(true),
        _ => {
            ignored.push(Warning::ProcBindIgnored { value });
            None
        }
    }
}

fn plan(
    config: &UnitConfig,
    topology: &Topology,
    asked: Option<bool>,
    (places, granule): &Where,
) -> Result<Bound, ConfigError> {
    let (machine, cores) = match asked {
        Some(false) => (Machine::plan(config, places.as_ref(), topology)?, None),
        _ => CoresTaken::plan(config, places.as_ref(), topology, asked == Some(true))?,
    };
    let bindings = cores.as_ref().map(|_| machine.bindings(*granule, topology));
    Ok(Bound { machine, cores, bindings })
}
