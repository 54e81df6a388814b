// `input` of a value gives `&T`.
fn main() {
    let rt = thalweg::Runtime::builder().build().unwrap();
    let list = rt.value(vec![1]);
    rt.task("push", list.input()).cpu(|_, list| list.push(2)).submit().unwrap();
}
