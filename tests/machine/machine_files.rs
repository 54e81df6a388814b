//! Invalid machine files, which are refused with an error that names the line and the key.

use thalweg::SimulatedMachine;

#[test]
fn invalid_machine_file_is_refused_with_line_and_key() {
    let good = "name = \"m\"\n[units.CPU]\ncount = 2\nbytes_per_s = 1e9\n";
    let gpu = "[units.GPU]\ncount = 1\nbytes_per_s = 1e9\n";
    let link = "[[links]]\nbetween = [\"host\", \"GPU\"]\nlatency_ns = 1\nbytes_per_s = 1e9\n";
    let cases = [
        ("name = \"m\"\n".to_owned(), "missing field `units`"),
        ("name = \"m\"\n[units]\n".to_owned(), "machine, line 2, `[units]`: a machine needs units"),
        (good.replace("count = 2", "count = 0"), "machine, line 3, `count`: 0 of a kind; there may be 1 to 1024"),
        (good.replace("count", "cuont"), "machine, line 3, `cuont`: unknown field `cuont`"),
        (good.replace("1e9", "-1"), "line 4, `bytes_per_s`: -1 is not a finite number above 0"),
        (good.replace("1e9", "5e-324"), "line 4, `bytes_per_s`: 5e-324 is not a number from 1e-18 to 1e18"),
        (good.replace("1e9", "nan"), "line 4, `bytes_per_s`: NaN is not a finite number above 0"),
        (good.replace("CPU", "CPV"), "`CPV` is not a kind of unit; the kinds are CPU, EMU"),
        (format!("{good}memory_bytes = 5\n"), "line 5, `memory_bytes`: the memory of CPU units is the host's"),
        (format!("{good}total_bytes_per_s = 5\n"), "line 5, `total_bytes_per_s`: less than `bytes_per_s`"),
        (format!("{good}idle_w = 5\nbusy_w = 4\n"), "line 6, `busy_w`: less than `idle_w`"),
        (format!("static_w = -1\n{good}"), "line 1, `static_w`: -1 is not a finite number of at least 0"),
        (format!("{good}{gpu}"), "no link connects the host and GPU"),
        (format!("{good}{gpu}{link}switch = {{}}\n"), "a switch joins devices of one kind"),
        (
            format!("{good}[[speeds]]\nat_ns = 5\nkind = \"GPU\"\nspeed = 2\n"),
            "line 7, `kind`: there are no GPU units in this file",
        ),
        (
            format!("{good}[[speeds]]\nat_ns = 5\nkind = \"CPU\"\nspeed = 0\n"),
            "line 8, `speed`: 0 is not a finite number",
        ),
        (format!("{good}{link}"), "line 6, `between`: there are no GPU units in this file"),
        (
            format!("{good}{gpu}{link}[[tasks]]\nname = \"a*b\"\ntime_ns.CPU = {{ 1 = 1 }}\n"),
            "line 13, `name`: a `*` is allowed only at the end",
        ),
        (format!("{good}[[tasks]]\nname = \"a\"\ntime_ns.CPU = {{ 0 = 1 }}\n"), "`0` is not a count"),
        (
            format!("{good}[[tasks]]\nname = \"a\"\ntime_ns.CPU = {{ }}\n"),
            "line 7, `time_ns.CPU`: give at least one time",
        ),
        (format!("{good}[[tasks]]\nname = \"a\"\ntime_ns = {{ }}\n"), "line 6, `name`: no kind of unit has a time"),
        (format!("{good}[[tasks]]\nname = \"a\"\ncost = 1\nbytes = 1\ntime_ns.CPU = {{ 1 = 1 }}\n"), "line 7, `cost`"),
        ("name = \"m\n".to_owned(), "machine, line 1, `name`"),
    ];
    for (text, expected) in cases {
        let error = text.parse::<SimulatedMachine>().expect_err(&text).to_string();
        assert!(error.contains(expected), "{error}\n  instead of  {expected}\n  for\n{text}");
    }
    let error = SimulatedMachine::from_file("machines/of-nobody.toml").unwrap_err();
    assert!(error.to_string().starts_with("machines/of-nobody.toml: "), "{error}");
}
