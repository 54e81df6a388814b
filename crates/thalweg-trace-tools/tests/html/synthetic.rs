//! Synthetic runs with any number of tasks, scheduled on a machine such that times, dependences, states, copies and
//! memory are consistent.
//!
//! Everything is derived from the seed; no file is read and no time is measured.

use thalweg_trace_tools::{
    Access, AccessMode, Copy, Data, Decision, Dependence, Memory, Note, NoteKind, Outcome, Region, Site, State,
    StateKind, Task, Trace, Unit,
};

/// A pseudo-random sequence (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit.max(1)
    }
}

/// Task names, both realistic ones and ones that an attacker would choose.
pub(crate) const NAMES: [&str; 12] = [
    "gemm",
    "syrk",
    "trsm",
    "potrf",
    "halo, \"north\"",
    "<script>document.title='owned'</script>",
    "</script><img src=x onerror=alert(1)>",
    "tab\there",
    "two\nlines",
    "🚀 launch",
    "'; DROP TABLE tasks; --",
    "\u{202e}reversed\u{2028}",
];

/// The properties of a run.
pub(crate) struct Shape {
    /// Number of tasks.
    pub(crate) tasks: usize,
    /// Number of units of kind `CPU`. One unit of kind `EMU` follows them.
    pub(crate) cpus: usize,
    /// Maximum number of predecessors per task.
    pub(crate) predecessors: u64,
    /// The seed. Another seed yields another run of the same shape.
    pub(crate) seed: u64,
}

/// Generates a run of the given shape.
pub(crate) fn run(shape: &Shape) -> Trace {
    let mut random = Random(shape.seed | 1);
    let units = shape.cpus + 1;
    let kind = |unit: usize| if unit < shape.cpus { "CPU" } else { "EMU" };
    let facts =
        [("program", "/opt/bin/synthetic"), ("scheduler", "stealing"), ("version", "0.1.0"), ("simulated", "false")];
    let mut trace = Trace {
        facts: facts.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        units: (0..units).map(|unit| Unit { kind: kind(unit).to_owned(), width: 1 }).collect(),
        spaces: vec!["host".to_owned(), "EMU 0".to_owned()],
        threads: vec!["main".to_owned()],
        sites: NAMES.iter().zip(10..).map(|(name, line)| site(name, line)).collect(),
        data: (0..64).map(|number| (number, Data { name: format!("tile {number}"), bytes: 65536 })).collect(),
        ..Trace::default()
    };
    let (mut free, mut clock, mut in_use) = (vec![0_u64; units], 1000_u64, 0_u64);
    for at in 0..shape.tasks {
        // Prefer the first names, so that the other names are rare.
        let site = (random.below(NAMES.len() as u64) * random.below(NAMES.len() as u64) / NAMES.len() as u64) as usize;
        clock += 100 + random.below(400);
        let mut ready = clock;
        for _ in 0..random.below(shape.predecessors + 1).min(at as u64) {
            let from = at - 1 - random.below(300.min(at as u64)) as usize;
            if trace.dependences.iter().rev().take_while(|edge| edge.to == at).any(|edge| edge.from == from) {
                continue;
            }
            let carries_value = random.below(4) > 0;
            trace.dependences.push(Dependence { from, to: at, data: Some(random.below(64)), carries_value });
            ready = ready.max(trace.tasks[from].finished.unwrap_or(0));
        }
        let unit = (0..units).min_by_key(|unit| free[*unit].max(ready)).expect("there is a unit");
        if free[unit] < ready {
            let kind = if random.below(3) == 0 { StateKind::Sleep } else { StateKind::Search };
            trace.states.push(State { start: free[unit], end: ready, kind, unit: Some(unit), thread: 0 });
        }
        let start = ready.max(free[unit]) + 150 + random.below(300);
        let end = start + (400 + random.below(800)) * (1 + site as u64) * shape.cpus as u64 / 2;
        free[unit] = end;
        if unit == shape.cpus && random.below(4) == 0 {
            in_use = (in_use + 65536) % (64 * 65536);
            let (data, evicts, waited) = (random.below(64), random.below(8) == 0, random.below(900));
            let (from, to) = if evicts { (1, 0) } else { (0, 1) };
            let ordered = start.saturating_sub(2000);
            trace.copies.push(Copy {
                start: ordered,
                end: start,
                waited,
                from,
                to,
                bytes: 65536,
                data,
                task: None,
                evicts,
                stream: None,
            });
            trace.memory.push(Memory { at: start, space: 1, bytes: in_use });
        }
        let outcome = if random.below(50_000) == 7 { Outcome::Failed } else { Outcome::Done };
        trace.tasks.push(Task {
            number: at as u64,
            site,
            submitted: clock,
            start: Some(start),
            end: Some(end),
            finished: Some(end),
            unit: Some(unit),
            device: (unit == shape.cpus).then_some(0),
            outcome: Some(outcome),
            ..Task::default()
        });
        trace.end = trace.end.max(end);
    }
    trace.states.sort_by_key(|state| state.end);
    trace.copies.sort_by_key(|copy| copy.end);
    trace.memory.sort_by_key(|memory| memory.at);
    trace
}

fn site(name: &str, line: u32) -> Site {
    Site { name: name.to_owned(), file: "src/<main>.rs".to_owned(), line, column: 5 }
}

/// Returns a small run with everything that a trace can contain: nested, overlapping, failed, poisoned, unfinished
/// and detached bodies, stages, copies that wait, notes, decisions, a problem, and units and spaces that the
/// machine does not list.
pub(crate) fn everything() -> Trace {
    let mut trace = run(&Shape { tasks: 400, cpus: 2, predecessors: 4, seed: 11 });
    let end = trace.end;
    let first = trace.tasks[0].clone();
    let task = |number: u64| Task { number, submitted: end, ..first.clone() };
    let nested = Task { start: first.start.map(|start| start + 10), end: first.end.map(|end| end - 10), ..task(900) };
    let nested = Task { parent: Some(0), submitted: first.submitted + 10, finished: nested.end, ..nested };
    let (ready, placed, reserved, launched) = (Some(end + 5), Some(end + 9), Some(end + 12), Some(end + 30));
    let stages = Task { ready, placed, reserved, launched, start: Some(end + 40), end: Some(end + 90), ..task(901) };
    let stages = Task { finished: Some(end + 500), outcome: Some(Outcome::Detached), stream: Some(3), ..stages };
    let stages = Task { policy: Some(1), expected: Some(25), expected_end: Some(200), ..stages };
    trace.policies = ["stealing", "<eft>"].map(str::to_owned).to_vec();
    let poisoned =
        Task { start: None, end: None, finished: None, unit: None, outcome: None, device: None, ..task(902) };
    let unfinished =
        Task { start: Some(end + 20), end: None, finished: None, outcome: None, unit: Some(7), ..task(903) };
    let homeless =
        Task { start: Some(end + 20), end: Some(end + 60), finished: Some(end + 60), unit: None, ..task(904) };
    let overlapping = Task { start: Some(end + 60), end: Some(end + 120), device: Some(1), ..task(905) };
    let overlapping = Task { finished: overlapping.end, ..overlapping };
    trace.tasks[17].outcome = Some(Outcome::Failed);
    trace.tasks.extend([nested, stages, poisoned, unfinished, homeless, overlapping]);
    let edge = |from| Dependence { from, to: 402, data: None, carries_value: false };
    trace.dependences.extend([17, 16, 400].map(edge));
    trace.notes.push(Note { at: end, task: 402, kind: NoteKind::Poisoned });
    trace.states.push(State { start: 0, end: end + 400, kind: StateKind::Wait, unit: None, thread: 0 });
    trace.states.push(State { start: end, end: end + 400, kind: StateKind::Throttle, unit: None, thread: 5 });
    let copy = Copy {
        start: 9000,
        end: 9500,
        waited: 700,
        from: 1,
        to: 9,
        bytes: 12,
        data: 4711,
        task: Some(3),
        evicts: true,
        stream: Some(1),
    };
    trace.copies.push(copy);
    trace.copies.sort_by_key(|copy| copy.end);
    let decision = |instance: u64| Decision {
        at: instance * end / 12,
        space: "<b>zones</b>".to_owned(),
        instance,
        state: (instance / 4) as u8,
        pivot: 20 + (64 >> instance.min(6)) as u32,
    };
    trace.decisions = (0..12).map(decision).collect();
    let region = |data: u64, text: &str| Region { data, bytes: 100 * data, text: text.to_owned() };
    trace.regions = vec![region(3, "[0..10]"), region(4711, "[<b>]")];
    let access = |task, region, mode| Access { task, region, mode };
    trace.accesses = vec![
        access(17, Some(0), AccessMode::Update),
        access(17, None, AccessMode::Read),
        access(40, Some(1), AccessMode::Order),
    ];
    trace.problem = Some("byte 4711: <i>the file ends in the middle of a frame</i>".to_owned());
    trace.end = end + 500;
    trace
}
