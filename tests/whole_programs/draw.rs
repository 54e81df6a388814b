//! Generator of programs. A program is determined by the numbers that are drawn.
//!
//! When a body is generated, the accesses that its task declares are known. Everything in a generated program is
//! therefore allowed, and no task waits for anything that comes later.

use crate::program::{Access, Act, Body, Kind, Loop, Machine, Mode, Object, Program, Task, Units};
use crate::random::Random;
use crate::steps::{End, Part};

/// An object that can be accessed at a place.
#[derive(Clone)]
struct Known {
    part: Part,
    kind: Kind,
    may: May,
    /// Whether the object is memory lent to a scope, which bodies of children cannot name.
    is_lent: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum May {
    Read,
    /// Everything except accumulation, because a parent holds the object for its children.
    Update,
    All,
}

/// Place for which acts are drawn.
#[derive(Clone)]
struct Place {
    at: At,
    depth: usize,
    known: Vec<Known>,
    /// Results that can be read; those in `own_results` can be taken.
    results: Vec<Object>,
    own_results: Vec<Object>,
}

#[derive(Clone, Copy, PartialEq)]
enum At {
    Outside,
    /// Like `Outside`, but on a thread that does not wait.
    Aside,
    Body,
    Scope,
}

struct Draw {
    random: Random,
    n: usize,
    fails: bool,
    has_devices: bool,
    groups: usize,
    /// Whether the program consists mostly of arrays, children and waits for children.
    is_plain: bool,
}

const UNITS: [&str; 14] = [
    "1:CPU:1",
    "1:CPU:1",
    "2:CPU:1",
    "2:CPU:1",
    "2:CPU:1",
    "3:CPU:1",
    "4:CPU:1",
    "1:CPU:2",
    "2:CPU:2",
    "1:CPU:1,1:EMU:1",
    "1:CPU:1,2:EMU:1",
    "2:CPU:1,1:EMU:2",
    "1:CPU:2,1:EMU:1",
    "2:EMU:1",
];

impl Program {
    pub(crate) fn draw(mut random: Random) -> Self {
        let machine = Machine {
            units: random.of(&UNITS),
            scheduler: if random.one_in(2) { "stealing" } else { random.of(thalweg::sched::NAMES) },
            hosted: random.one_in(3),
            spare_bytes: [0, 1].map(|_| 64 * random.below(20) as u64),
        };
        let groups =
            if random.one_in(3) { (0..1 + random.below(3)).map(|_| random.one_in(2)).collect() } else { vec![] };
        let has_devices = machine.units.contains("EMU");
        let fails = random.one_in(2);
        let is_plain = random.one_in(3);
        let mut draw = Draw { random, n: 0, fails, has_devices, groups: groups.len(), is_plain };
        Self { acts: draw.program(), groups, machine }
    }
}

impl Draw {
    fn number(&mut self) -> usize {
        self.n += 1;
        self.n
    }

    fn program(&mut self) -> Vec<Act> {
        let (known, results, own_results) = (vec![], vec![], vec![]);
        let mut place = Place { at: At::Outside, depth: 0, known, results, own_results };
        let mut acts = Vec::new();
        for kind in [Kind::Line(24), Kind::Square(6, 6)] {
            acts.push(self.make(&mut place, kind));
        }
        for _ in 0..if self.is_plain { 0 } else { self.random.below(3) } {
            let kind = self.kind();
            acts.push(self.make(&mut place, kind));
        }
        for _ in 0..2 + self.random.below(10) {
            acts.push(self.act(&mut place));
        }
        if self.random.one_in(2) {
            acts.push(Act::Wait(self.number()));
        }
        let by_element = self.random.one_in(2);
        let left: Vec<_> = place.known.iter().map(|known| known.part.data).collect();
        acts.extend(left.into_iter().map(|object| Act::Read(self.number(), object, by_element)));
        acts.push(Act::Wait(self.number()));
        leave_what_is_taken(&mut acts);
        acts
    }

    fn kind(&mut self) -> Kind {
        self.random.of(&[
            Kind::Line(12),
            Kind::Square(3, 7),
            Kind::Cube(2, 3, 4),
            Kind::Cube(3, 2, 3),
            Kind::Value,
            Kind::Value,
            Kind::Token,
        ])
    }

    fn make(&mut self, place: &mut Place, kind: Kind) -> Act {
        let object = self.number();
        place.known.push(Known { part: kind.all_of(object), kind, may: May::All, is_lent: false });
        Act::Make(object, kind)
    }

    fn act(&mut self, place: &mut Place) -> Act {
        let outside = place.at == At::Outside;
        let may_wait = place.at != At::Aside;
        let lot = if self.is_plain { 31 } else { 0 };
        match lot.max(self.random.below(32)) {
            _ if self.is_plain && place.at == At::Body && self.random.one_in(8) => Act::Wait(self.number()),
            0 if outside && self.random.one_in(2) => self.aside(),
            0 | 1 if may_wait => Act::Wait(self.number()),
            2 | 3 if !place.own_results.is_empty() => {
                let result = place.own_results.swap_remove(self.random.below(place.own_results.len()));
                place.results.retain(|known| *known != result);
                if self.random.one_in(4) { Act::Drop(result) } else { Act::Take(self.number(), result) }
            }
            4 | 5 if place.at != At::Scope => {
                let kind = self.kind();
                self.make(place, kind)
            }
            6..9 => match self.own(place) {
                Some(at) => {
                    let object = place.known[at].part.data;
                    match self.random.below(4) {
                        0 if place.known.len() > 2 => {
                            place.known.swap_remove(at);
                            if self.random.one_in(2) { Act::Drop(object) } else { Act::Take(self.number(), object) }
                        }
                        1 if (outside || !may_wait) && place.known[at].kind.is_array() => {
                            Act::Clear(self.part(&place.known[at].clone()))
                        }
                        _ => Act::Read(self.number(), object, self.random.one_in(3)),
                    }
                }
                None => Act::Task(self.task(place)),
            },
            9 if place.depth < 2 => self.scope(place),
            10 | 11 if outside && self.groups > 0 => {
                let group = self.random.below(self.groups);
                match self.random.below(3) {
                    0 => Act::WaitForGroup(self.number(), group),
                    n => Act::Cancel(group, n == 1),
                }
            }
            12..15 if place.at != At::Scope => match self.a_loop(place) {
                Some(all) => Act::Loop(all),
                None => Act::Task(self.task(place)),
            },
            _ => Act::Task(self.task(place)),
        }
    }

    /// Returns an object that is available to the place itself and not only to its children.
    fn own(&mut self, place: &Place) -> Option<usize> {
        let is_own = |known: &Known| known.may == May::All && (!known.is_lent || place.at == At::Scope);
        let own: Vec<_> = (0..place.known.len()).filter(|at| is_own(&place.known[*at])).collect();
        (!own.is_empty()).then(|| self.random.of(&own))
    }

    fn part(&mut self, known: &Known) -> Part {
        match known.kind.is_array() {
            true => {
                // Use the dimensions of the array, because the part itself may be empty in some of them.
                let first = known.kind.extents().iter().position(|extent| *extent > 1).unwrap_or(2);
                let along = |d: usize| if d < first { 0..1 } else { self.random.within(&known.part.ranges[d]) };
                Part { ranges: [0, 1, 2].map(along), ..known.part }
            }
            false => known.part.clone(),
        }
    }

    fn scope(&mut self, place: &mut Place) -> Act {
        let n = self.number();
        let mut lent = Vec::new();
        let mut inner = Place { at: At::Scope, depth: place.depth + 1, own_results: vec![], ..place.clone() };
        inner.known.retain(|known| place.at != At::Body && !known.is_lent);
        for _ in 0..1 + self.random.below(2) {
            let kind = self.random.of(&[Kind::Line(10), Kind::Square(4, 5), Kind::Cube(2, 3, 3)]);
            let object = self.number();
            lent.push((object, kind));
            inner.known.push(Known { part: kind.all_of(object), kind, may: May::All, is_lent: true });
        }
        // Objects of the program itself are not removed, because they may be needed after the scope.
        inner
            .known
            .iter_mut()
            .filter(|known| !known.is_lent && known.may == May::All)
            .for_each(|known| known.may = May::Update);
        let acts = (0..1 + self.random.below(5)).map(|_| self.act(&mut inner)).collect();
        Act::Scope { n, lent, acts }
    }

    fn aside(&mut self) -> Act {
        let (known, results, own_results) = (vec![], vec![], vec![]);
        let mut place = Place { at: At::Aside, depth: 0, known, results, own_results };
        let mut acts = vec![self.make(&mut place, Kind::Line(8))];
        acts.extend((0..2 + self.random.below(6)).map(|_| self.act(&mut place)));
        let left: Vec<_> = place.known.iter().map(|known| known.part.data).collect();
        acts.extend(left.into_iter().map(|object| Act::Read(self.number(), object, false)));
        leave_what_is_taken(&mut acts);
        Act::Aside(acts)
    }

    fn a_loop(&mut self, place: &Place) -> Option<Loop> {
        let arrays: Vec<_> =
            place.known.iter().filter(|known| known.may != May::Read && known.kind.is_array()).collect();
        if arrays.is_empty() {
            return None;
        }
        let known = self.random.of(&arrays);
        let whole = self.part(known);
        if whole.volume() == 0 {
            return None;
        }
        let mut reads = Vec::new();
        for known in place.known.iter().filter(|known| known.kind.is_array()) {
            let part = self.part(known);
            if self.random.one_in(2) && !part.overlaps(&whole) {
                reads.push(part);
            }
        }
        let mut modes = vec![Mode::Out, Mode::Inout, Mode::Inout, Mode::Commutative, Mode::Sum, Mode::WeakInout];
        if known.may == May::All {
            modes.push(Mode::Accumulate);
        }
        let all = Loop {
            n: self.number(),
            reads,
            tile: [1 + self.random.below(3), 1 + self.random.below(4), 2 + self.random.below(6)],
            mode: self.random.of(&modes),
            fails: (self.fails && self.random.one_in(4)).then(|| self.random.below(3)),
            in_space: self.random.one_in(3),
            whole,
        };
        self.n += all.numbers();
        Some(all)
    }

    fn mode(&mut self, known: &Known, is_parent: bool) -> Mode {
        let is_line = matches!(known.kind, Kind::Line(_));
        let modes: &[Mode] = match (known.may, known.kind.is_array()) {
            (May::Read, _) if is_parent => &[Mode::WeakIn, Mode::WeakIn, Mode::In],
            (May::Read, _) => &[Mode::In, Mode::In, Mode::In, Mode::Outcome, Mode::After],
            (_, true) if is_parent => {
                &[Mode::WeakInout, Mode::WeakInout, Mode::WeakInout, Mode::WeakIn, Mode::In, Mode::Inout, Mode::Out]
            }
            (_, true) => &[
                Mode::In,
                Mode::In,
                Mode::In,
                Mode::Outcome,
                Mode::Outcome,
                Mode::After,
                Mode::Out,
                Mode::Inout,
                Mode::Inout,
                Mode::Inout,
                Mode::Commutative,
                Mode::Sum,
                Mode::Concurrent,
                Mode::Accumulate,
            ],
            _ if is_parent => &[Mode::WeakInout, Mode::WeakInout, Mode::WeakIn, Mode::In, Mode::Inout],
            _ => &[
                Mode::In,
                Mode::In,
                Mode::Outcome,
                Mode::After,
                Mode::Out,
                Mode::Inout,
                Mode::Commutative,
                Mode::Concurrent,
            ],
        };
        match self.random.of(modes) {
            Mode::Concurrent if known.kind.is_array() && !is_line => Mode::Commutative,
            Mode::Accumulate if known.may != May::All => Mode::Sum,
            mode => mode,
        }
    }

    fn accesses(&mut self, place: &Place, is_parent: bool) -> Vec<(Access, Known)> {
        let mut accesses: Vec<(Access, Known)> = Vec::new();
        if place.known.is_empty() {
            return accesses;
        }
        for _ in 0..1 + self.random.below(4) {
            let known = self.random.of(&place.known);
            let access = Access { part: self.part(&known), mode: self.mode(&known, is_parent) };
            let is_in_the_way = |(other, _): &(Access, Known)| {
                other.part.overlaps(&access.part) && (other.mode.writes() || access.mode.writes())
            };
            // Children cannot name lent memory.
            let is_in_vain = known.is_lent && access.mode.is_weak();
            if !is_in_vain && !accesses.iter().any(is_in_the_way) {
                accesses.push((access, known));
            }
        }
        accesses
    }

    fn task(&mut self, place: &mut Place) -> Task {
        let is_parent = place.depth < 4 && !self.random.one_in(place.depth + 2);
        let accesses = self.accesses(place, is_parent);
        let mut task = Task::new(self.number(), accesses.iter().map(|(access, _)| access.clone()).collect());
        for result in &place.results {
            if self.random.one_in(3) {
                task.results.push(*result);
            }
        }
        let is_of = |mode: fn(Mode) -> bool| task.accesses.iter().any(|access| mode(access.mode));
        let is_weak = is_of(Mode::is_weak);
        let has_concurrent = is_of(|mode| mode == Mode::Concurrent);
        let is_concurrent_array =
            |(access, known): &(Access, Known)| access.mode == Mode::Concurrent && known.kind.is_array();
        let can_lend = !is_weak && !is_of(|mode| mode == Mode::Outcome) && !accesses.iter().any(is_concurrent_array);
        let has_values = accesses.iter().any(|(_, known)| known.kind == Kind::Value);
        task.body = match self.random.below(12) {
            0 | 1 if place.at != At::Scope => Body::Returns,
            3 | 4 if can_lend && place.at != At::Scope => Body::Detached,
            5 | 6 if can_lend && place.at != At::Scope => Body::Async(self.random.below(3) as u32),
            _ => Body::Plain,
        };
        let fails = self.fails && self.random.one_in(7);
        task.end = if fails { self.random.of(&[End::Fails, End::Panics]) } else { End::Returns };
        task.units = match self.random.below(6) {
            0 => Units::Cores,
            1 if self.has_devices && !has_values && !has_concurrent && task.body == Body::Plain => Units::Devices,
            _ => Units::Any,
        };
        task.group = (place.at == At::Outside && self.groups > 0 && self.random.one_in(2))
            .then(|| self.random.below(self.groups));
        task.urgent = place.at != At::Scope && self.random.one_in(6);
        task.watched = task.body != Body::Returns && self.random.one_in(4);
        // A commutative body keeps its turn while it runs, so it must not wait: the awaited task may need the same
        // turn.
        let keeps_turn = task.accesses.iter().any(|access| access.mode == Mode::Commutative);
        let has_acts = (is_parent || self.random.one_in(8)) && !keeps_turn;
        if has_acts {
            task.acts = self.body(place, &accesses);
        }
        if task.body == Body::Returns {
            place.results.push(task.n);
            place.own_results.push(task.n);
        }
        task
    }

    /// Draws the acts for the body of a task with these accesses.
    fn body(&mut self, place: &Place, accesses: &[(Access, Known)]) -> Vec<Act> {
        let inside = |(access, known): &(Access, Known)| {
            let may = match access.mode {
                Mode::In | Mode::WeakIn => May::Read,
                Mode::WeakInout => May::Update,
                _ => return None,
            };
            (!known.is_lent).then(|| Known { part: access.part.clone(), may, ..known.clone() })
        };
        let mut inner = Place {
            at: At::Body,
            depth: place.depth + 1,
            known: accesses.iter().filter_map(inside).collect(),
            results: place.results.clone(),
            own_results: vec![],
        };
        let mut acts = (0..self.random.below(6)).map(|_| self.act(&mut inner)).collect::<Vec<_>>();
        leave_what_is_taken(&mut acts);
        acts
    }
}

/// Removes empty accesses to objects that are taken in the meantime, because bodies would be refused these accesses.
fn leave_what_is_taken(acts: &mut [Act]) {
    let taken = |act: &Act| if let Act::Take(_, object) = act { Some(*object) } else { None };
    let taken: Vec<_> = acts.iter().filter_map(taken).collect();
    let is_there = |part: &Part| part.volume() > 0 || !taken.contains(&part.data);
    fn inside(acts: &mut [Act], is_there: &dyn Fn(&Part) -> bool) {
        for act in acts {
            match act {
                Act::Task(task) => {
                    task.accesses.retain(|access| is_there(&access.part));
                    inside(&mut task.acts, is_there);
                }
                Act::Loop(all) => all.reads.retain(is_there),
                Act::Scope { acts, .. } => inside(acts, is_there),
                _ => {}
            }
        }
    }
    for act in acts {
        match act {
            Act::Task(task) => inside(&mut task.acts, &is_there),
            Act::Scope { acts, .. } => inside(acts, &is_there),
            _ => {}
        }
    }
}
