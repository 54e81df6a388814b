//! A cluster as a platform of the multi-zone benchmarks: each zone's fields are bound to the zone's owner.

use npb::mz::{Benchmark, Problem};
use npb::{Front, Hints, Platform, Result};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use thalweg::error::DeviceError;
use thalweg::ids::DataId;
use thalweg::kernel::Launcher;
use thalweg::memory::{AccessList, IntoOutcome};
use thalweg::ndarray::{Array4, Ix4};
use thalweg::sched::{Adjacency, Distribution, GuidedRuntime, Static};
use thalweg::task::{Accesses, Data, IterationSpace};
use thalweg::{Context, Runtime};
use thalweg_mpi::owners::LargestFirst;
use thalweg_mpi::{Balance, Cluster, ClusterData, ClusterError};

type Field = Data<f64, Ix4>;

/// The ranks, and the owners of the zones.
pub(crate) struct Ranks<'c> {
    cluster: &'c Cluster,
    balance: RefCell<Balance>,
    /// For each zone, its bound fields.
    fields: RefCell<Vec<HashMap<DataId, ClusterData<f64, Ix4>>>>,
}

/// The distributions of zones to ranks, by name.
pub(crate) const OWNERS: [&str; 4] = ["size", "static", "adjacency", "guided"];

impl<'c> Ranks<'c> {
    /// Distributes the zones of a problem by one of [`OWNERS`].
    pub(crate) fn new(cluster: &'c Cluster, benchmark: Benchmark, problem: &Problem, owners: &str) -> Self {
        let (weights, faces) = problem.zones_to_share(benchmark);
        let zones = weights.len();
        let balance = |distribution: Box<dyn Distribution>| Balance::new(cluster, distribution, weights, Some(faces));
        let balance = balance(match owners {
            "static" => Box::new(Static),
            "adjacency" => Box::new(Adjacency::new(Adjacency::SLACK)),
            "guided" => Box::new(GuidedRuntime::default()),
            _ => Box::new(LargestFirst),
        });
        let fields = RefCell::new((0..zones).map(|_| HashMap::new()).collect());
        Self { cluster, balance: RefCell::new(balance), fields }
    }

    /// Moves zones after a step whose zones took these times, and returns their number.
    pub(crate) fn rebalance(&self, times: impl FnOnce() -> Vec<f64>) -> std::result::Result<usize, ClusterError> {
        let mut balance = self.balance.borrow_mut();
        if balance.is_steady() {
            return Ok(0);
        }
        self.cluster.wait()?; // the last step has been measured
        let moved = balance.next(self.cluster, &times())?;
        let fields = self.fields.borrow();
        for zone in &moved {
            // In the order of registration, which is the same on every rank.
            let mut fields: Vec<_> = fields[*zone].iter().collect();
            fields.sort_by_key(|(number, _)| **number);
            for (_, field) in fields {
                self.cluster.migrate(field.all(), balance.owner(*zone))?;
            }
        }
        Ok(moved.len())
    }
}

impl Front for Ranks<'_> {
    type Error = ClusterError;

    fn begin(&self, _: &IterationSpace) {}

    fn task<A, C, G>(
        &self,
        name: impl Into<Cow<'static, str>>,
        accesses: A,
        hints: Hints<'_>,
        cpu: C,
        _: G,
    ) -> std::result::Result<(), ClusterError>
    where
        A: Accesses,
        C: for<'x, 'a> Fn(&'x Context, <A::Stored as AccessList>::Views<'a>) + Send + Sync + 'static,
        G: for<'l, 'd, 'a> Fn(
                &'l mut Launcher<'d>,
                <A::Stored as AccessList>::DeviceViews<'a>,
            ) -> std::result::Result<(), DeviceError>
            + Send
            + Sync
            + 'static,
    {
        self.on_cores(name, accesses, hints, cpu)
    }

    fn on_cores<A, C>(
        &self,
        name: impl Into<Cow<'static, str>>,
        accesses: A,
        _: Hints<'_>,
        cpu: C,
    ) -> std::result::Result<(), ClusterError>
    where
        A: Accesses,
        C: for<'x, 'a> Fn(&'x Context, <A::Stored as AccessList>::Views<'a>) + Send + Sync + 'static,
    {
        let accesses = self.cluster.bound(accesses)?;
        match self.cluster.is_local(&accesses) {
            true => self.cluster.task(name, accesses).cpu(cpu).submit(),
            false => Ok(()),
        }
    }

    fn parent<A, C, R>(
        &self,
        name: impl Into<Cow<'static, str>>,
        accesses: A,
        body: C,
    ) -> std::result::Result<(), ClusterError>
    where
        A: Accesses,
        R: IntoOutcome + 'static,
        C: for<'x, 'a> Fn(&'x Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + Sync + 'static,
    {
        self.cluster.task(name, self.cluster.bound(accesses)?).cpu(body).submit()
    }
}

impl Platform for Ranks<'_> {
    fn runtime(&self) -> &Runtime {
        self.cluster.runtime()
    }

    fn single(&self) -> Option<&Runtime> {
        None
    }

    fn own(&self, field: &Field, zone: usize) {
        let bound = self.cluster.bind(field, self.balance.borrow().owner(zone));
        self.fields.borrow_mut()[zone].insert(field.id(), bound);
    }

    fn wait(&self) -> Result<()> {
        Ok(self.cluster.wait()?)
    }

    fn read(&self, field: &Field) -> Result<Array4<f64>> {
        let fields = self.fields.borrow();
        let bound = fields.iter().find_map(|fields| fields.get(&field.id())).ok_or("the field belongs to no zone")?;
        Ok(self.cluster.read(bound)?)
    }
}
