//! Outcomes that a detached body takes along when it returns.

use crate::common::runtime;
use crate::outcome::{N, fail, root, told};
use thalweg::region::Block;

#[test]
fn detached_body_gets_a_guard_of_the_value_or_the_failure() {
    let rt = runtime("2:CPU:1");
    let (x, shown) = (rt.data(vec![5u64; N]), rt.value(Vec::new()));
    let whole = Block::whole(&[N]);
    for fails in [false, true, false] {
        if fails {
            fail(&rt, "root", 7, x.all());
        } else {
            rt.task("fill", x.output()).cpu(|_, x| x.fill(9)).submit().unwrap();
        }
        rt.task("lend", (x.block(whole).outcome(), shown.inout()))
            .host_detached_until_event(|_, (x, mut shown)| {
                std::thread::spawn(move || {
                    shown.push(told(x.as_ref().map(|x| x[N - 1]).map_err(|failure| &**failure)));
                    x.into_iter().for_each(|x| x.finish());
                    shown.finish();
                });
            })
            .submit()
            .unwrap();
    }
    assert!(rt.wait().is_err());
    assert_eq!(rt.take(shown).unwrap(), [Ok(9), Err(root("root", 7)), Ok(9)]);
}
