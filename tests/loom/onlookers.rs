//! Tasks that a thread exposes while it runs them. Another thread that sees such a task keeps it from being freed for
//! as long as it looks.

use super::exposed::Exposed;
use super::model;
use super::tasks::{Modelled, prepare, run, submitting};
use loom::sync::Arc;
use loom::thread;

/// Runs two tasks one after the other and exposes each of them. The task and its body's value are written before and
/// after.
fn show_two(exposed: &Exposed<Modelled>) {
    for _ in 0..2 {
        let mut task = submitting(0);
        prepare(&mut task);
        let task = task.commit().unwrap();
        let body = exposed.during(&task, |body| body.read());
        assert_eq!(body, 0);
        assert!(!exposed.is_shown());
        run(task); // writes the body, and frees the block
    }
}

/// Runs a task whose body runs another task on top of it, as a body that waits does. Both are exposed.
fn show_nested(exposed: &Exposed<Modelled>) {
    let [below, above] = [(); 2].map(|()| {
        let mut task = submitting(0);
        prepare(&mut task);
        task.commit().unwrap()
    });
    exposed.during(&below, |_| {
        exposed.during(&above, |body| assert_eq!(body.read(), 0));
        run(above);
        assert!(exposed.is_shown());
    });
    run(below);
}

/// Looks once for an exposed task, which must be intact. Returns whether there was one.
fn look(exposed: &Exposed<Modelled>) -> bool {
    let mut seen = vec![];
    unsafe { exposed.look(|task, body, _, _| seen.push((task.shared().0.read(), body.read()))) };
    assert!(seen.iter().all(|seen| *seen == (1, 0)));
    !seen.is_empty()
}

#[test]
fn exposed_task_stays_alive_while_it_is_looked_at() {
    let seen = std::sync::Arc::new([const { std::sync::atomic::AtomicBool::new(false) }; 2]);
    let all = seen.clone();
    model(3, move || {
        let exposed = Arc::new(Exposed::default());
        let other = exposed.clone();
        let looking = thread::spawn(move || look(&other));
        show_two(&exposed);
        let was_seen = looking.join().unwrap();
        seen[usize::from(was_seen)].store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let both = all.iter().all(|seen| seen.load(std::sync::atomic::Ordering::Relaxed));
    assert!(both, "a task is seen in some interleavings and not in others");
}

#[test]
fn two_threads_may_look_at_one_exposed_task() {
    model(2, || {
        let exposed = Arc::new(Exposed::default());
        let looking = [(); 2].map(|()| {
            let exposed = exposed.clone();
            thread::spawn(move || _ = look(&exposed))
        });
        show_two(&exposed);
        looking.into_iter().for_each(|looking| looking.join().unwrap());
    });
}

#[test]
fn tasks_below_the_innermost_one_stay_alive_while_they_are_looked_at() {
    model(3, || {
        let exposed = Arc::new(Exposed::default());
        let other = exposed.clone();
        let looking = thread::spawn(move || _ = look(&other));
        show_nested(&exposed);
        looking.join().unwrap();
    });
}
