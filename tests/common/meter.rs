//! A counted resource that checks how much of it is in use.

#![allow(dead_code, unreachable_pub)] // each test program that includes this module uses a part of it

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use thalweg::prelude::*;
use thalweg::task::Resource;

/// A resource, and the amount of it that bodies use.
#[derive(Debug, Clone)]
pub struct Meter {
    pub resource: Resource,
    total: u32,
    used: Arc<AtomicU32>,
}

/// An amount that a body uses; dropped when the body ends.
#[derive(Debug)]
pub struct Used {
    amount: u32,
    used: Arc<AtomicU32>,
}

impl Meter {
    pub fn new(rt: &Runtime, total: u32) -> Self {
        Self { resource: rt.resource("meter", total), total, used: Arc::default() }
    }

    /// Called by the body of a task that uses `amount`.
    pub fn begin(&self, amount: u32) -> Used {
        let before = self.used.fetch_add(amount, Ordering::SeqCst);
        let used = Used { amount, used: self.used.clone() };
        assert!(before + amount <= self.total, "{} of {} are in use", before + amount, self.total);
        used
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        self.used.fetch_sub(self.amount, Ordering::SeqCst);
    }
}
