// A result may only borrow data that outlives the scope; tasks can only access results that borrow nothing.
use thalweg::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let result = {
        let text = String::from("short-lived");
        rt.scope(|s| s.task("t", ()).returns(|_, ()| &text[..]).submit())
    };
    drop(result);
    let _ = rt.scope(|s| {
        let text = String::from("inside");
        s.task("t", ()).returns(|_, ()| &text[..]).submit().map(drop)
    });
    let text = String::from("long-lived");
    let _ = rt.scope(|s| {
        let word = s.task("t", ()).returns(|_, ()| &text[..]).submit().unwrap();
        s.task("u", word.input()).cpu(|_, word| println!("{word}")).submit().map(drop)
    });
}
