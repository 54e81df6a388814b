//! Execution of a program on a runtime.

use crate::access::{Content, Handle, Handles, Place, array, make};
use crate::log::{Log, Recorder, Seen, missing, told};
use crate::loops;
use crate::program::{Act, Kind, Machine, Object, Program};
use crate::steps::Part;
use crate::submit::{Submitted, submit};
use ndarray::{Array2, Array3};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use thalweg::prelude::*;
use thalweg::{Scope, TaskGroup};

/// The state that all acts of a run share.
#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) rt: Arc<Runtime>,
    pub(crate) log: Recorder,
}

/// Place where acts are performed.
pub(crate) enum At<'a, 's, 'e> {
    Outside(&'a Outside<'a>),
    Body(&'a Context),
    Scope(&'s Scope<'s, 'e>),
}

/// State of the thread that began the program.
pub(crate) struct Outside<'a> {
    pub(crate) rt: &'a Runtime,
    pub(crate) groups: &'a [TaskGroup],
    /// Sends the index of a group that is to be cancelled some time later.
    later: Sender<usize>,
    /// Function that performs acts on another thread.
    aside: &'a dyn Fn(&[Act]),
}

fn build(machine: &Machine, needed_bytes: u64) -> Runtime {
    let spare = machine.spare_bytes;
    Runtime::builder()
        .compute_units(machine.units)
        .scheduler(machine.scheduler)
        .use_current_thread(machine.hosted)
        .detect_conflicts(true)
        .emulated_devices(move |n| EmulatedDevice::new().capacity_bytes((needed_bytes + spare[n % 2]) >> (2 * (n % 2))))
        .build()
        .unwrap()
}

/// Runs the program. Returns its log.
pub(crate) fn run(program: &Program) -> Log {
    let log = Recorder::new(&program.machine);
    let rt = Arc::new(build(&program.machine, program.largest_task_bytes()));
    let run = Run { rt: rt.clone(), log: log.clone() };
    let mut groups: Vec<TaskGroup> = Vec::new();
    for is_part in &program.groups {
        groups.push(match groups.last() {
            Some(all) if *is_part => all.group(),
            _ => rt.group(),
        });
    }
    thread::scope(|threads| {
        let (later, given_up) = channel::<usize>();
        threads.spawn(|| {
            for group in given_up {
                (0..group % 3 * 8).for_each(|_| thread::yield_now());
                groups[group].cancel();
            }
        });
        let others = RefCell::new(Vec::new());
        let aside = |acts: &[Act]| {
            let (run, later, acts) = (run.clone(), later.clone(), acts.to_vec());
            others.borrow_mut().push(threads.spawn(move || {
                let outside =
                    Outside { rt: &run.rt, groups: &[], later, aside: &|_| unreachable!("nested threads have none") };
                perform(&run, &At::Outside(&outside), &mut Handles::new(), &acts);
            }));
        };
        let outside = Outside { rt: &rt, groups: &groups, later: later.clone(), aside: &aside };
        perform(&run, &At::Outside(&outside), &mut Handles::new(), &program.acts);
        // It is possible that only this thread can run the tasks that the other threads submit.
        while others.borrow().iter().any(|thread| !thread.is_finished()) {
            let _ = rt.wait();
            thread::yield_now();
        }
    });
    let _ = rt.wait(); // a reduced program may leave tasks pending
    drop((groups, run));
    rt.statistics().conflicts.into_iter().for_each(|conflict| log.error(conflict));
    if Arc::into_inner(rt).is_none() {
        log.error("a body was not dropped when all tasks had ended".to_owned());
    }
    log.finish()
}

/// Performs acts one after the other.
pub(crate) fn perform<'s>(run: &Run, at: &At<'_, 's, '_>, handles: &mut Handles<'s>, acts: &[Act]) {
    let mut watched = Vec::new();
    for act in acts {
        match act {
            Act::Make(object, kind) => {
                handles.insert(*object, make(run, at, *object, *kind));
            }
            Act::Task(task) => match submit(run, at, handles, task) {
                Ok(Submitted { handle, result }) => {
                    watched.extend(handle);
                    let result = result.map(|result| Handle::Result(Arc::new(result)));
                    handles.extend(result.map(|result| (task.n, result)));
                }
                Err(SubmitError::Cancelled { .. }) => run.log.refused(task.n),
                Err(error) => run.log.error(error.to_string()),
            },
            Act::Loop(all) => {
                if let Err(error) = loops::submit(run, at, handles, all) {
                    run.log.error(error.to_string());
                }
            }
            Act::Wait(n) => {
                let seen = told(match at {
                    At::Outside(outside) => outside.rt.wait(),
                    At::Body(at) => at.wait(),
                    At::Scope(scope) => scope.group().wait(),
                });
                let has_waited = matches!(seen, Seen::Failures(_));
                if let Some(task) = watched.iter().find(|task| has_waited && !task.is_finished()) {
                    run.log.error(format!("after wait {n}, {} has not finished", task.name()));
                }
                run.log.saw(*n, seen);
            }
            Act::Read(n, object, by_element) => {
                if let Some(handle) = handles.get(object) {
                    run.log.saw(*n, read(&run.rt, handle, *object, *by_element));
                }
            }
            Act::Take(n, object) => {
                if let Some(handle) = handles.remove(object) {
                    run.log.saw(*n, take(&run.rt, handle));
                }
            }
            Act::Drop(object) => drop(handles.remove(object)),
            Act::Clear(part) => match handles.get(&part.data).and_then(|handle| handle.part(part)) {
                Some(Place::Line(x)) => run.rt.clear(x).unwrap(),
                Some(Place::Square(x)) => run.rt.clear(x).unwrap(),
                Some(Place::Cube(x)) => run.rt.clear(x).unwrap(),
                None => {}
            },
            Act::Scope { n, lent, acts } => run.log.saw(*n, scope(run, handles, lent, acts)),
            Act::Aside(acts) => {
                if let At::Outside(outside) = at {
                    (outside.aside)(acts);
                }
            }
            Act::Cancel(group, at_once) => {
                if let At::Outside(outside) = at {
                    match at_once {
                        true => outside.groups[*group].cancel(),
                        false => outside.later.send(*group).unwrap(),
                    }
                }
            }
            Act::WaitForGroup(n, group) => {
                if let At::Outside(outside) = at {
                    run.log.saw(*n, told(outside.groups[*group].wait()));
                }
            }
        }
    }
}

/// Reads all elements, in one piece or one by one.
fn read(rt: &Runtime, handle: &Handle<'_>, object: Object, by_element: bool) -> Seen {
    let read = |ranges: [std::ops::Range<usize>; 3]| match handle.part(&Part { data: object, ranges }) {
        Some(Place::Line(x)) => rt.read(x),
        Some(Place::Square(x)) => rt.read(x).map(|x| x.into_iter().collect()),
        Some(Place::Cube(x)) => rt.read(x).map(|x| x.into_iter().collect()),
        None => Ok(vec![]),
    };
    let extents = match handle {
        Handle::Line(x) => [1, 1, x.len()],
        Handle::Square(x) => [1, x.shape()[0], x.shape()[1]],
        Handle::Cube(x) => [0, 1, 2].map(|d| x.shape()[d]),
        Handle::LentLine(x) => [1, 1, x.len()],
        Handle::LentSquare(x) => [1, x.shape()[0], x.shape()[1]],
        Handle::LentCube(x) => [0, 1, 2].map(|d| x.shape()[d]),
        Handle::Value(x) => match rt.read_value(x, |x| x.value.load(Ordering::Relaxed)) {
            Ok(x) => return Seen::Elements(vec![Some(x)]),
            Err(RunError::Poisoned(_)) => return Seen::Elements(vec![None]),
            Err(error) => return missing(&error),
        },
        Handle::Token(_) | Handle::Result(_) => return Seen::Elements(vec![]),
    };
    if !by_element {
        match read(extents.map(|extent| 0..extent)) {
            Ok(elements) => return Seen::Elements(elements.into_iter().map(Some).collect()),
            Err(RunError::Poisoned(_)) => {}
            Err(error) => return missing(&error),
        }
    }
    let mut elements = Vec::new();
    for e in 0..extents.iter().product() {
        let (x, y, z) = (e / extents[2] / extents[1], e / extents[2] % extents[1], e % extents[2]);
        match read([x..x + 1, y..y + 1, z..z + 1]) {
            Ok(element) => elements.push(Some(element[0])),
            Err(RunError::Poisoned(_)) => elements.push(None),
            Err(error) => return missing(&error),
        }
    }
    Seen::Elements(elements)
}

/// Takes all elements out of the runtime.
fn take(rt: &Runtime, handle: Handle<'_>) -> Seen {
    let taken = match handle {
        Handle::Line(x) => rt.take(x).map_err(RunError::from),
        Handle::Square(x) => rt.take(x).map(|x| x.into_iter().collect()).map_err(RunError::from),
        Handle::Cube(x) => rt.take(x).map(|x| x.into_iter().collect()).map_err(RunError::from),
        Handle::Value(x) => rt.take(x).map(|x: Content| vec![x.value.load(Ordering::Relaxed)]).map_err(RunError::from),
        Handle::Result(x) => match Arc::into_inner(x) {
            Some(result) => result.get().map(|x| vec![x.0]),
            None => return Seen::Missing,
        },
        Handle::Token(_) | Handle::LentLine(_) | Handle::LentSquare(_) | Handle::LentCube(_) => {
            return Seen::Missing;
        }
    };
    match taken {
        Ok(elements) => Seen::Elements(elements.into_iter().map(Some).collect()),
        Err(error) => missing(&error),
    }
}

/// Memory that the program owns.
enum Memory {
    Line(Vec<u64>),
    Square(Array2<u64>),
    Cube(Array3<u64>),
}

impl Memory {
    fn new(object: Object, kind: Kind) -> Self {
        let elements = (0..kind.extents().iter().product()).map(|e| crate::oracle::start(object, e)).collect();
        match kind {
            Kind::Square(x, y) => Self::Square(array(ndarray::Ix2(x, y), elements)),
            Kind::Cube(x, y, z) => Self::Cube(array(ndarray::Ix3(x, y, z), elements)),
            _ => Self::Line(elements),
        }
    }

    fn elements(self) -> Vec<u64> {
        match self {
            Self::Line(x) => x,
            Self::Square(x) => x.into_iter().collect(),
            Self::Cube(x) => x.into_iter().collect(),
        }
    }
}

fn scope(run: &Run, handles: &Handles<'_>, lent: &[(Object, Kind)], acts: &[Act]) -> Seen {
    let mut memory: Vec<_> = lent.iter().map(|(object, kind)| Memory::new(*object, *kind)).collect();
    let borrowed = &mut memory;
    let ended = run.rt.scope(move |scope| {
        let owned = handles.iter().filter_map(|(object, handle)| Some((*object, handle.owned()?)));
        let mut handles: Handles<'_> = owned.collect();
        for ((object, _), memory) in lent.iter().zip(borrowed) {
            let handle = match memory {
                Memory::Line(x) => Handle::LentLine(Arc::new(scope.borrow_mut(x))),
                Memory::Square(x) => Handle::LentSquare(Arc::new(scope.borrow_array_mut(x.view_mut()).unwrap())),
                Memory::Cube(x) => Handle::LentCube(Arc::new(scope.borrow_array_mut(x.view_mut()).unwrap())),
            };
            handles.insert(*object, handle);
        }
        perform(run, &At::Scope(scope), &mut handles, acts);
    });
    match told(ended) {
        Seen::Failures(names) => Seen::Scope(names, memory.into_iter().map(Memory::elements).collect()),
        other => other,
    }
}
