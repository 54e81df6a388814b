//! The exhaustive strategy runs each linear extension of a graph of tasks once. The numbers of linear extensions are
//! known by formulas.

use crate::{on, task};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use thalweg::Runtime;
use thalweg::check::{Explored, Strategy};

fn factorial(n: u64) -> u64 {
    (1..=n).product()
}

/// Explores a program of tasks, each of which calls its argument with its number. All orders must be different.
fn orders(program: impl Fn(&Runtime, &dyn Fn(u64) -> Box<dyn Fn() + Send + Sync>) + Sync) -> Explored {
    let all = Mutex::new(BTreeSet::new());
    let explored = on("1:CPU:1").strategy(Strategy::Exhaustive).run(0..100_000, |rt| {
        let order = Arc::new(Mutex::new(Vec::new()));
        let note = |n| -> Box<dyn Fn() + Send + Sync> {
            let order = order.clone();
            Box::new(move || order.lock().unwrap().push(n))
        };
        program(rt, &note);
        rt.wait().unwrap();
        assert!(all.lock().unwrap().insert(order.lock().unwrap().clone()), "each order comes once");
    });
    let explored = explored.unwrap();
    assert!(explored.is_complete);
    assert_eq!(explored.distinct, explored.schedules);
    assert_eq!(explored.schedules, all.into_inner().unwrap().len() as u64);
    explored
}

#[test]
fn independent_tasks_run_in_all_permutations() {
    for n in [0, 1, 2, 4, 6] {
        let explored = orders(|rt, note| (0..n).for_each(|k| task(rt, "t", note(k))));
        assert_eq!(explored.schedules, factorial(n));
    }
}

#[test]
fn chains_are_interleaved_in_all_ways() {
    for (a, b) in [(1, 5), (3, 3), (2, 6)] {
        let explored = orders(|rt, note| {
            let data = [rt.data(vec![0u8]), rt.data(vec![0u8])];
            for (chain, length) in [(0, a), (1, b)] {
                for k in 0..length {
                    let note = note(chain as u64 * 100 + k);
                    rt.task("link", (data[chain].inout(),)).cpu(move |_, _| note()).submit().unwrap();
                }
            }
        });
        assert_eq!(explored.schedules, factorial(a + b) / factorial(a) / factorial(b), "a binomial coefficient");
    }
}

#[test]
fn trees_follow_the_hook_length_formula() {
    // Each task of a binary tree comes before its two children: n! divided by the product of the subtrees' sizes.
    let explored = orders(|rt, note| {
        let data: Vec<_> = (0..7).map(|_| rt.data(vec![0u8])).collect();
        for k in 0..7usize {
            let note = note(k as u64);
            let parent = data[k.saturating_sub(1) / 2].input();
            if k == 0 {
                rt.task("root", (data[0].output(),)).cpu(move |_, _| note()).submit().unwrap();
            } else {
                rt.task("node", (parent, data[k].output())).cpu(move |_, _| note()).submit().unwrap();
            }
        }
    });
    assert_eq!(explored.schedules, factorial(7) / (7 * 3 * 3));
}

#[test]
fn waits_and_phases_multiply() {
    let explored = orders(|rt, note| {
        (0..3).for_each(|k| task(rt, "before", note(k)));
        rt.wait().unwrap();
        (3..6).for_each(|k| task(rt, "after", note(k)));
    });
    assert_eq!(explored.schedules, factorial(3) * factorial(3));
}

#[test]
fn waiting_body_is_two_steps() {
    // The parent's first half and second half are a chain with its child between them; one other task is independent.
    let explored = orders(|rt, note| {
        let (first, child, second, other) = (note(0), Mutex::new(Some(note(1))), note(2), note(3));
        let body = move |at: &thalweg::Context, ()| {
            first();
            let child = child.lock().unwrap().take().unwrap();
            at.task("child", ()).cpu(move |_, ()| child()).submit().unwrap();
            at.wait().unwrap();
            second();
        };
        rt.task("parent", ()).host(body).submit().unwrap();
        task(rt, "other", other);
    });
    assert_eq!(explored.schedules, 4, "the other task has four places in a chain of three");
}

#[test]
fn limit_on_their_number_is_kept() {
    let explored = on("1:CPU:1").strategy(Strategy::Exhaustive).run(0..10, |rt| {
        (0..5).for_each(|_| task(rt, "t", || ()));
        rt.wait().unwrap();
    });
    let explored = explored.unwrap();
    assert_eq!((explored.schedules, explored.is_complete), (10, false));
}

#[test]
fn units_multiply_the_number() {
    let explored = on("3:CPU:1").strategy(Strategy::Exhaustive).run(0..1000, |rt| {
        (0..3).for_each(|_| task(rt, "t", || ()));
        rt.wait().unwrap();
    });
    assert_eq!(explored.unwrap().schedules, factorial(3) * 3u64.pow(3));
}
