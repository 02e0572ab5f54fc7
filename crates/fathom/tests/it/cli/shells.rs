//! Completions and manual pages, by the built binary.

use std::process::Command;

fn fathom(arguments: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_fathom")).args(arguments).output().expect("fathom runs")
}

#[test]
fn bash_takes_the_completions_and_knows_an_option() {
    for (shell, part) in [("bash", "--reconnect-at-most"), ("zsh", "--idle-timeout"), ("fish", "summary")] {
        let printed = fathom(&["completions", shell]);
        assert!(printed.status.success(), "{shell}: {printed:?}");
        let text = String::from_utf8_lossy(&printed.stdout);
        assert!(text.contains(part), "{shell}");
        // What people do not call was offered to them.
        assert!(!text.contains("fathom host") && !text.contains("fathom__host"), "{shell}");
        assert!(!text.contains("Serve a study on this host"), "{shell}");
    }
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("fathom.bash");
    std::fs::write(&file, fathom(&["completions", "bash"]).stdout).expect("written");
    for (words, before, typed, option) in [
        ("fathom probe h --recon", "probe", "--recon", "--reconnect-at-most"),
        ("fathom report --json-", "report", "--json-", "--json-file"),
        ("fathom study watch --port", "watch", "--port", "--port-file"),
    ] {
        let at = words.split(' ').count() - 1;
        let line = format!(
            "source $0; COMP_WORDS=({words}); COMP_CWORD={at}; _fathom fathom {typed} {before}; echo ${{COMPREPLY[@]}}"
        );
        let completed = Command::new("bash").args(["-c", &line]).arg(&file).output().expect("bash runs");
        assert_eq!(String::from_utf8_lossy(&completed.stdout).trim(), option, "{completed:?}");
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let home = tempfile::tempdir().expect("a directory");
    let directory = home.path().to_str().expect("text");
    assert!(fathom(&["man", directory]).status.success());
    let page = std::fs::read_to_string(home.path().join("fathom-probe.1")).expect("a page");
    // roff writes a hyphen that is to be copied as \-.
    assert!(page.contains(".TH") && page.contains("reconnect\\-at\\-most"), "{}", &page[..500]);
    for name in ["fathom.1", "fathom-echo.1", "fathom-recording-explain.1", "fathom-study-watch.1"] {
        assert!(home.path().join(name).is_file(), "{name}");
    }
    assert!(!home.path().join("fathom-host.1").exists());
    let overview = std::fs::read_to_string(home.path().join("fathom.1")).expect("a page");
    assert!(overview.contains("Examples") && overview.contains("echo"), "{overview}");
    let nowhere = fathom(&["man", &format!("{directory}/nowhere")]);
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("a directory that is there"), "{nowhere:?}");
}
