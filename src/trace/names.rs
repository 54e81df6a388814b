//! Names in a trace: task names with their source locations, names of data objects and regions, and recordings.
//!
//! Invariant: a name is entered here before the first record that refers to it. So a writer that takes the records
//! first and the names second has the names for all of these records.

use super::{Describe, fact};
use crate::ids::DataId;
use crate::region::Block;
use crate::sync::CallSite;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use thalweg_trace::frame::{
    DATA, META, RECORDINGS, REGIONS, Recording, SITES, push_data, push_recording, push_region, push_site,
};
use thalweg_trace::record::{NO_POLICY, UNKNOWN};

/// Name that replaces all further names once there are too many, because a program that creates a name per task would
/// fill the memory.
const OTHER: &str = "(other names)";
const MOST_SITES: usize = 1 << 18;
/// Maximum number of regions with names. Accesses to further regions do not name them.
const MOST_REGIONS: usize = 1 << 20;

#[derive(Default)]
pub(super) struct Names {
    sites: Mutex<Sites>,
    /// Entries that have not been written yet.
    data: Mutex<Vec<u8>>,
    regions: Mutex<Regions>,
    /// Entries that have not been written yet.
    recordings: Mutex<Vec<u8>>,
    policies: Mutex<Policies>,
}

#[derive(Default)]
struct Policies {
    names: Vec<&'static str>,
    /// Lines that have not been written yet.
    unwritten: Vec<u8>,
}

#[derive(Default)]
struct Regions {
    numbers: FxHashMap<(DataId, Block), u32>,
    /// Entries that have not been written yet.
    unwritten: Vec<u8>,
}

#[derive(Default)]
struct Sites {
    numbers: FxHashMap<(String, CallSite), u32>,
    /// Entries that have not been written yet.
    unwritten: Vec<u8>,
}

impl Names {
    /// Returns the ID for a task's name and source location.
    pub(super) fn site(&self, name: &str, location: CallSite) -> u32 {
        let sites = &mut *self.sites.lock();
        let name = if sites.numbers.len() < MOST_SITES { name } else { OTHER };
        let next = sites.numbers.len() as u32;
        *sites.numbers.entry((name.to_owned(), location)).or_insert_with(|| {
            let number = next.min(UNKNOWN);
            push_site(&mut sites.unwritten, number, name, location.file(), location.line(), location.column());
            number
        })
    }

    /// Returns the ID of a region of a data object. `describe` returns the region's size in bytes and its ranges as
    /// text.
    pub(super) fn region(&self, data: DataId, block: &Block, describe: impl FnOnce() -> (u64, String)) -> u32 {
        let regions = &mut *self.regions.lock();
        let next = regions.numbers.len();
        match regions.numbers.get(&(data, *block)) {
            Some(number) => *number,
            None if next == MOST_REGIONS => UNKNOWN,
            None => {
                let (bytes, text) = describe();
                push_region(&mut regions.unwritten, next as u32, data.0, bytes, &text);
                regions.numbers.insert((data, *block), next as u32);
                next as u32
            }
        }
    }

    /// Adds a data object's name to the entries to be written.
    pub(super) fn add_data(&self, data: DataId, describe: &dyn Describe) {
        let (name, bytes) = describe.describe();
        push_data(&mut self.data.lock(), data.0, bytes, &name);
    }

    /// Returns the number of a policy. Policies after the first 15 have no number.
    pub(super) fn policy(&self, name: &'static str) -> u8 {
        let Policies { names, unwritten } = &mut *self.policies.lock();
        let known = names.iter().position(|known| *known == name);
        let number = known.unwrap_or(names.len()).min(NO_POLICY.into());
        if known.is_none() && number < NO_POLICY.into() {
            names.push(name);
            unwritten.extend(format!("policy\t{number} {}\n", fact(name)).into_bytes());
        }
        number as u8
    }

    /// Adds a recording to the entries to be written.
    pub(super) fn add_recording(&self, recording: &Recording) {
        push_recording(&mut self.recordings.lock(), recording);
    }

    /// Takes the entries that have not been written yet, with the kinds of their frames.
    pub(super) fn take_unwritten(&self) -> [(u32, Vec<u8>); 5] {
        let take = |entries: &mut Vec<u8>| std::mem::take(entries);
        // A recording refers to sites and regions, so it is taken before these.
        let recordings = take(&mut self.recordings.lock());
        let sites = take(&mut self.sites.lock().unwritten);
        let regions = take(&mut self.regions.lock().unwritten);
        let data = take(&mut self.data.lock());
        let policies = take(&mut self.policies.lock().unwritten);
        [(META, policies), (SITES, sites), (DATA, data), (REGIONS, regions), (RECORDINGS, recordings)]
    }
}
