//! Tasks that a thread shows while it runs them: who sees one keeps it from ending meanwhile.
//!
//! Both fences are whole ones here. That a system call is as good as the one of the two is up to the system.

use super::exposed::Exposed;
use super::model;
use super::tasks::{Modelled, prepare, run, submitting};
use loom::sync::Arc;
use loom::thread;

/// Runs two tasks one after the other, each shown; what a task is and what its body holds is written before and after.
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

/// Looks once; whether there was a task, which must have been whole.
fn look(exposed: &Exposed<Modelled>) -> bool {
    let mut seen = vec![];
    unsafe { exposed.look(|task, body, _, _| seen.push((task.shared().0.read(), body.read()))) };
    assert!(seen.iter().all(|seen| *seen == (1, 0)));
    !seen.is_empty()
}

#[test]
fn a_task_that_is_seen_is_not_let_go_meanwhile() {
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
    assert!(both, "in some orders a task is seen, in others none is");
}

#[test]
fn two_may_look_at_one_thread() {
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
