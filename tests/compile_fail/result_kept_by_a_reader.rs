// A body may use a result only while it runs.
fn main() {
    let rt = thalweg::Runtime::builder().build().unwrap();
    let text = rt.task("text", ()).returns(|_, ()| String::new()).submit().unwrap();
    let mut kept: Option<&'static String> = None;
    rt.task("keep", text.input()).cpu(move |_, text| kept = Some(text)).submit().unwrap();
}
