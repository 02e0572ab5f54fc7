//! A scenario as somebody may have written it: refused in a line at a place that the file has, or read, laid out and
//! described. Its seeds are the shipped scenarios.
#![no_main]

use fathom_fabric::scenario::Scenario;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let scenario = match Scenario::parse(text, "x.toml") {
        Ok(scenario) => scenario,
        Err(error) => {
            let told = error.to_string();
            assert!(!told.contains('\n'), "{told:?}");
            let line = text.split('\n').nth(error.line - 1).expect("a line of the file");
            assert!((1..=line.chars().count() + 1).contains(&error.column), "{error}");
            return;
        }
    };
    let plan = scenario.plan();
    assert!(plan.hosts.len() == scenario.hosts().len() && plan.legs.len() >= scenario.paths().len());
    for path in scenario.paths() {
        let mean = path.round_trip_mean_ns();
        assert!(mean.is_finite() && mean >= 0.0, "{mean}");
    }
});
