//! Tests of the generated text, and of refused sources.

use super::{kernel_text, target};
use proc_macro2::TokenStream;
use quote::quote;

fn text(options: &str, function: &str) -> String {
    let name = function.split("fn ").nth(1).and_then(|rest| rest.split('(').next()).unwrap();
    let made = kernel_text(&format!("#[target{options}]\n{function}"), name);
    made.unwrap_or_else(|error| panic!("{error}: {function}"))
}

fn refused(options: TokenStream, function: TokenStream) -> String {
    let made = target(options, function).to_string();
    let (_, message) = made.split_once("compile_error ! { \"").unwrap_or_else(|| panic!("accepted: {made}"));
    message.split("\" }").next().unwrap().to_owned()
}

#[test]
fn plain_loop_becomes_a_kernel() {
    let text =
        text("", "fn vecadd(a: &[f64], b: &[f64], c: Out<'_, [f64]>) { for i in 0..c.len() { c[i] = a[i] + b[i]; } }");
    let expected = "\
KERNEL(TEAM_X, TEAM_Y, TEAM_Z) vecadd_loop(IN(double, a, a_n0), IN(double, b, b_n0), OUT(double, c, c_n0), INT64 a_n0,
                                           INT64 b_n0, INT64 c_n0)
{
    REGION(a); REGION(b); REGION(c);
    { DISTRIBUTE_PARALLEL(at, (INT64)0, (INT64)(UINT64)c_n0) {
        UINT64 i = (UINT64)at;
        STORE(c, i, c_n0, LOAD(a, i, a_n0) + LOAD(b, i, b_n0));
    } }
}
";
    assert_eq!(text, expected);
}

#[test]
fn no_barrier_follows_another() {
    let source = "fn nest(x: &[f64], y: &mut [f64], n: usize) {
        #[distribute]
        for i in 0..n {
            for j in 0..8usize {
                y[i * 16 + j * 2] = x[i];
                let mut kept = [x[i]; 5];
                y[i * 16 + j * 2 + 1] -= kept[0];
            }
        }
    }";
    let text = text("(teams(thread_limit = 8))", source);
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    assert_eq!(lines.iter().filter(|line| **line == "BARRIER();").count(), 3, "{text}");
    assert!(lines.windows(2).all(|two| two != ["BARRIER();"; 2]), "{text}");
}

/// PoCL 3.1 executed the store after the inner loop once for each thread if that loop ran no iteration.
#[test]
fn barrier_follows_no_other_around_a_loop_without_iterations() {
    let statements = |body: &str| {
        let source =
            format!("fn nest(x: &[f64], y: &mut [f64], n: usize) {{ #[distribute] for i in 0..n {{ {body} }} }}");
        let text = text("(teams(thread_limit = 8))", &source);
        let short = |line: &str| match line.trim() {
            "BARRIER();" => Some('|'),
            line if line.contains("STORE") => Some('S'),
            line if line.contains("LOAD") => Some('L'),
            line if line.starts_with("for") || line.starts_with("while") => Some('('),
            "} }" | "{" => None,
            line if line.starts_with('}') => Some(')'),
            _ => None,
        };
        text.split_once("DISTRIBUTE").unwrap().1.lines().filter_map(short).collect::<String>()
    };
    assert_eq!(
        statements("for j in 0..8usize { y[i] = 1.0; for k in 0..j % 3 { y[i] += 1.0; } y[i] += 2.0; }"),
        "(S|(S|)S|))"
    );
    assert_eq!(
        statements("let a = x[i]; for k in 0..i % 3 { y[i] += a; } y[i] -= a;"),
        "L|(S|)S|)",
        "one before the loop"
    );
    assert_eq!(statements("for k in 0..i % 3 { let a = x[k]; y[i] += a; } y[i] = 0.0;"), "(L|S|)S|)");
    assert_eq!(
        statements("for k in 0..i % 3 { y[i] += 1.0; let a = y[k]; if a > 2.0 { continue; } } y[i] = 0.0;"),
        "(|S|L))|S|)"
    );
    let skips = "for k in 0..n { if k == i { continue; } y[i] += 1.0; if x[k] > 0.0 { break; } } y[i] = 0.0;";
    assert_eq!(statements(skips), "()|S|L))|S|)");
}

#[test]
fn nested_loops_get_dimensions_and_barriers() {
    let source = "fn nest(x: &[f64], y: &mut [f64], n: usize) {
        #[distribute]
        for i in 0..n {
            #[parallel_for]
            for j in 0..64usize { #[parallel_for] for k in 0..32usize { y[(i * 64 + j) * 32 + k] = x[i]; } }
            #[parallel_for]
            for j in 0..64usize { y[(i * 64 + j) * 32] = 1.0; }
        }
    }";
    let normal = text("", source);
    assert!(normal.contains("PARALLEL_Y(at_y, (INT64)0, (INT64)64)") && normal.contains("PARALLEL_X(at_x"), "{normal}");
    assert_eq!(normal.matches("BARRIER();").count(), 1, "between the loops, and not after the last: {normal}");
    assert!(normal.contains("if (LOCAL_ID(0) == 0)"), "the second nest has one dimension: {normal}");
    let plain = text("(off(innermost_first))", source);
    assert!(plain.find("PARALLEL_X").unwrap() < plain.find("PARALLEL_Y").unwrap(), "{plain}");
}

#[test]
fn team_memory_holds_copies_and_chunks() {
    let source = "fn f(a: &[f64], c: &[f64], b: &mut [f64], n: usize) {
        #[distribute(dist_firstprivate([128] c, [128] b), dist_lastprivate([128] b))]
        #[parallel_for]
        for i in 0..n { b[i] = b[i] + c[i] * a[i % 64]; }
    }";
    let text_of = |off: &str| text(&format!("(teams(num = 32, firstprivate(a: 64)){off})"), source);
    let text = text_of("");
    for line in [
        "LOCAL(double, a_team, 64);",
        "LOCAL(double, c_chunk, 128);",
        "LOCAL(double, b_chunk, 128);",
        "b_chunk[in_chunk] = b_chunk[in_chunk] + c_chunk[in_chunk] * LOAD(a_team, i % 64, a_n0);",
        "STORE(b, chunk_first + slot, b_n0, b_chunk[slot]);",
    ] {
        assert!(text.contains(line), "no {line} in {text}");
    }
    assert!(!text_of(", off(team_memory)").contains("LOCAL("));
}

#[test]
fn data_dependent_indices_are_checked() {
    let text = text(
        "",
        "fn gather(x: &[f64], at: &[u32], y: &mut [f64]) { for i in 0..y.len() { y[i] = x[at[i] as usize]; } }",
    );
    assert!(text.contains("SAFE_LOAD(x, (UINT64)LOAD(v_at, i, v_at_n0), x_n0)"), "{text}");
}

#[test]
fn conflicting_iterations_are_refused() {
    let of = |body: TokenStream| {
        refused(quote!(), quote!(fn f(x: &[f64], at: &[u32], y: &mut [f64], s: &mut f64, n: usize) { #body }))
    };
    for (body, words) in [
        (
            quote!(for i in 0..n {
                y[0] = x[i];
            }),
            "all iterations of `i` write this element of `y`",
        ),
        (
            quote!(for i in 0..n {
                y[at[i] as usize] = x[i];
            }),
            "depends on data",
        ),
        (
            quote!(for i in 0..n {
                *s = x[i];
            }),
            "all iterations would assign to `*s`",
        ),
        (
            quote!(for i in 0..n {
                x[i] = 1.0;
            }),
            "`x` is read-only",
        ),
        (
            quote!(
                #[distribute]
                for i in 0..n {
                    let mut t = 0.0;
                    #[parallel_for]
                    for j in 0..n {
                        t += x[j];
                    }
                    y[i] = t;
                }
            ),
            "reduction",
        ),
        (
            quote!(
                #[distribute]
                for i in 0..n {
                    #[parallel_for]
                    for j in 0..n {
                        y[i] = x[j];
                    }
                }
            ),
            "all iterations of `j`",
        ),
        (
            quote!(
                #[distribute]
                for i in 0..n {
                    #[parallel_for]
                    for j in 0..n {
                        y[i * n + j] = 1.0;
                        #[parallel_for]
                        for k in 0..n {
                            y[i + j + k] = x[j];
                        }
                    }
                }
            ),
            "between two loops over threads",
        ),
        (
            quote!(
                #[parallel_for]
                for i in 0..n {
                    y[i] = x[i];
                }
            ),
            "shared out over teams",
        ),
        (
            quote!(for i in 0..n {
                if x[i] > 0.0 {
                    break;
                }
            }),
            "independent of each other",
        ),
        (
            quote!(
                #[distribute]
                #[parallel_for(reduction(+: s))]
                for i in 0..n {
                    y[i] = *s;
                    *s += x[i];
                }
            ),
            "write `scan` instead of `reduction`",
        ),
        (
            quote!(for i in 0..n {
                y[i] = *s;
                *s += x[i] * *s;
            }),
            "all iterations would assign to `*s`",
        ),
    ] {
        let message = of(body.clone());
        assert!(message.contains(words), "{body}: {message}");
    }
}

#[test]
fn unsupported_syntax_is_named() {
    let of = |body: TokenStream| refused(quote!(), quote!(fn f(x: &[f64], y: &mut [f64], n: usize) { #body }));
    for (body, words) in [
        (quote!(for v in x.iter() {}), "a loop runs over integers"),
        (
            quote!(for i in 0..n {
                match i {
                    _ => {}
                }
            }),
            "no `match`",
        ),
        (
            quote!(for i in 0..n {
                println!("{i}");
            }),
            "cannot call macros",
        ),
        (
            quote!(for i in 0..n {
                y[i] = x.iter().sum();
            }),
            "kernels have no such method",
        ),
        (
            quote!(for i in 0..n {
                let f = |a: f64| a;
            }),
            "no closures",
        ),
        (
            quote!(for i in 0..n {
                loop {}
            }),
            "write `while`",
        ),
        (
            quote!(for i in 0..n {
                return;
            }),
            "cannot end the function",
        ),
        (
            quote!(for i in 0..n {
                y[i] = "a";
            }),
            "only numbers",
        ),
        (quote!(y[0] = 1.0;), "outside the loops"),
        (quote!(let a = n;), "no loop to share out"),
        (
            quote!(for i in 0..n {
                y[i] = m;
            }),
            "make `m` a parameter",
        ),
    ] {
        let message = of(body.clone());
        assert!(message.contains(words), "{body}: {message}");
    }
    let head = |function: TokenStream| refused(quote!(), function);
    assert!(
        head(quote!(
            fn f<T>(x: &[T]) {
                for i in 0..1 {}
            }
        ))
        .contains("no generic parameters")
    );
    assert!(
        head(quote!(
            fn f(x: &[String]) {
                for i in 0..1 {}
            }
        ))
        .contains("devices hold")
    );
    assert!(
        head(quote!(
            fn f(x: Vec<f64>) {
                for i in 0..1 {}
            }
        ))
        .contains("no such parameter")
    );
    assert!(
        head(quote!(
            fn f(x: &[f64]) -> f64 {
                for i in 0..1 {}
            }
        ))
        .contains("returns nothing")
    );
}

#[test]
fn clauses_are_checked() {
    let body = quote!(
        fn f(a: &[f64], b: &mut [f64], n: usize) {
            #[distribute(dist_firstprivate([128] a))]
            #[parallel_for]
            for i in 0..n {
                b[i] = a[i];
            }
        }
    );
    assert!(refused(quote!(teams(num = 0)), body.clone()).contains("1 or more"));
    assert!(refused(quote!(teams(thread_limit = 2048)), body.clone()).contains("1 to 1024"));
    assert!(refused(quote!(team(num = 1)), body.clone()).contains("no such option"));
    assert!(refused(quote!(device(gpu)), body.clone()).contains("write `smp`, for cores, or `acc`"));
    assert!(refused(quote!(device(acc, smp)), body.clone()).contains("leave `device` out"));
    assert!(refused(quote!(teams(firstprivate(z: 4))), body.clone()).contains("no parameter `z`"));
    let large = quote!(
        fn f(a: &[f64], b: &mut [f64], n: usize) {
            #[distribute(dist_firstprivate([8192] a))]
            #[parallel_for]
            for i in 0..n {
                b[i] = a[i];
            }
        }
    );
    assert!(refused(quote!(), large).contains("65536 bytes"));
    let other = quote!(
        fn f(a: &[f64], b: &mut [f64], n: usize) {
            #[distribute(dist_firstprivate([128] a))]
            #[parallel_for]
            for i in 1..n {
                b[i] = a[i - 1];
            }
        }
    );
    assert!(refused(quote!(), other).contains("write `a[i]`"));
}

#[test]
fn pieces_have_windows() {
    let source =
        "fn relax(old: &[f64], new: &mut [f64]) { for i in 1..new.len() - 1 { new[i] = old[i - 1] + old[i + 1]; } }";
    let text = text("(split = 4)", source);
    for line in [
        "{ DISTRIBUTE_PARALLEL(at, piece_first, piece_end) {",
        "STORE(v_new, (INT64)i - v_new_b0, v_new_n0, LOAD(old, (INT64)(i - 1) - old_b0, old_n0) + LOAD(old, (INT64)(i + 1) - old_b0, old_n0));",
    ] {
        assert!(text.contains(line), "no {line} in {text}");
    }
}

#[test]
fn kernel_with_too_many_parameters_is_refused() {
    let function = quote!(
        fn f(a: &ArrayRef3<f64>, b: &ArrayRef3<f64>, c: &mut ArrayRef3<f64>) {
            for i in 0..8usize {
                c[[i, 0, 0]] = a[[i, 0, 0]] + b[[i, 0, 0]];
            }
        }
    );
    let message = refused(quote!(split), function);
    assert!(message.contains("a kernel has at most 24 parameters, and this one would need 29"), "{message}");
}

#[test]
fn fusion_that_changes_the_result_is_refused() {
    let hidden = quote!(
        fn f(x: &mut [f64], y: &mut [f64], n: usize) {
            let end = n;
            for i in 0..end {
                x[i] = 1.0;
            }
            let end = n / 2;
            for i in 0..end {
                y[i] = x[i];
            }
        }
    );
    let message = refused(quote!(fuse), hidden);
    assert!(message.contains("would also use this `end`"), "{message}");
    let read_before = quote!(
        fn f(x: &[f64], y: &mut [f64], sum: &mut f64) {
            for i in 0..x.len() {
                y[i] = *sum;
            }
            for i in 0..x.len() {
                *sum += x[i];
            }
        }
    );
    assert!(refused(quote!(fuse), read_before).contains("sum"));
}

#[test]
fn running_sum_has_three_kernels() {
    let source = "fn f(x: &[f64], y: &mut [f64], z: &mut [f64]) {
        let mut sum = 0.0;
        for i in 0..x.len() { z[i] = sum; sum += x[i]; y[i] = sum; }
    }";
    let text = text("", source);
    let kernels: Vec<&str> = text.split("KERNEL(").skip(1).collect();
    let [sums, offsets, runs] = kernels[..] else { panic!("{text}") };
    assert!(sums.contains("sum = sum + LOAD(x, i, x_n0);") && !sums.contains("STORE("), "it only adds up: {sums}");
    assert!(
        offsets.contains("scan_start") && offsets.contains("SCAN(scan_lanes, scan_part, scan_before, SUM);"),
        "{offsets}"
    );
    let order = ["SUM(scan_parts[chunk], scan_runs[run])", "STORE(z, i", "sum = sum +", "STORE(y, i"];
    let places: Vec<_> =
        order.iter().map(|part| runs.find(part).unwrap_or_else(|| panic!("no {part} in {runs}"))).collect();
    assert!(places.is_sorted(), "{runs}");
    let declared = source.replace("for i", "#[distribute] #[parallel_for(scan(+: sum))] for i");
    assert_eq!(text, self::text("", &declared), "the clause matches the detected sum");
}
