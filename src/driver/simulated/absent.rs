//! Placeholder for the simulated driver in builds without the feature `sim`: an uninhabited type.

use super::Driver;
use super::reasons::{Queues, Spot};
use super::shared::Shared;
use super::waiters::Awaited;
use crate::depend::{AccessRecord, Kinds, OwnedTask, Submitting};
use crate::engine::{CopyOrder, Event, Launch, Refused, Release};
use crate::ids::DataId;
use crate::memory::DataCell;
use crate::sync::Share;
use std::time::Duration;

/// Driver of a simulating runtime. This type is uninhabited.
pub(crate) enum Simulated {}

impl Simulated {
    pub(crate) fn wait_to_allocate(&self, _: u64) -> Option<Share> {
        match *self {}
    }

    pub(crate) fn kinds(&self, _: &str, _: Kinds, _: bool) -> Kinds {
        match *self {}
    }
}

impl Queues for Simulated {
    fn visit(&self, _: &mut dyn FnMut(&OwnedTask, Spot)) {
        match *self {}
    }
}

impl Driver for Simulated {
    fn shared(&self) -> &Shared {
        match *self {}
    }

    fn now(&self) -> Duration {
        match *self {}
    }

    fn enter(&self, _: Submitting, _: &[AccessRecord<'_>]) -> Result<(), Refused> {
        match *self {}
    }

    fn advance(&self, _: Awaited, _: impl Fn() -> u64) {
        match *self {}
    }

    fn register(&self, _: &DataCell) {
        match *self {}
    }

    fn unregister(&self, _: DataId) {
        match *self {}
    }

    fn launch(&self, _: Box<Launch>) {
        match *self {}
    }

    fn copy(&self, _: &CopyOrder) -> Option<Event<'static>> {
        match *self {}
    }

    fn release(&self, _: &Release) {
        match *self {}
    }

    fn stop(&self) {
        match *self {}
    }
}
