//! A type-erased distribution: the code around distributions is compiled once rather than once per type. It only
//! forwards; names, maps and times are those of the inner distribution.

use super::fpm::{Known, SharesInUse};
use super::{Assignment, Distributed, Distribution, LowerBound, Policy, State, TeamSize, TeamSized, Times, Workload};

/// Creates a built-in policy that follows `distribution`, over a team of this size or the whole team.
pub(super) fn distributed(
    distribution: impl Distribution + Clone + 'static,
    team: Option<TeamSize>,
) -> Box<dyn Policy> {
    let mut distribution = AnyDistribution::new(distribution);
    if let Some(size) = team {
        distribution = AnyDistribution::new(TeamSized::new(distribution, size));
    }
    Box::new(Distributed::new(distribution))
}

struct AnyDistribution(Box<dyn Copied>);

impl AnyDistribution {
    fn new(distribution: impl Distribution + Clone + 'static) -> Self {
        Self(Box::new(distribution))
    }
}

impl Clone for AnyDistribution {
    fn clone(&self) -> Self {
        self.0.copied()
    }
}

/// `Clone` for boxed distributions.
trait Copied: Distribution {
    fn copied(&self) -> AnyDistribution;
}

impl<D: Distribution + Clone + 'static> Copied for D {
    fn copied(&self) -> AnyDistribution {
        AnyDistribution::new(self.clone())
    }
}

impl Distribution for AnyDistribution {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn assign(&mut self, workload: &Workload<'_>, measured: Option<&Times>) -> Assignment {
        self.0.assign(workload, measured)
    }

    fn is_steady(&self) -> bool {
        self.0.is_steady()
    }

    fn search_state(&self) -> State {
        self.0.search_state()
    }

    fn bound(&self) -> Option<LowerBound> {
        self.0.bound()
    }

    fn profiles(&self) -> Option<Known> {
        self.0.profiles()
    }

    fn shares(&self) -> Option<&SharesInUse> {
        self.0.shares()
    }

    fn observe(&mut self, workload: &Workload<'_>, measured: &Times) {
        self.0.observe(workload, measured);
    }
}
