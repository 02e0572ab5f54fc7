use super::*;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use tempfile::TempDir;

/// A directory in which bases may stand, and who is to own them.
struct Root {
    home: TempDir,
    owner: Owner,
}

impl Root {
    fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap(), owner: peer::user }
    }

    /// Of somebody who owns nothing here: to them everything that stands here was prepared by another.
    fn of_another(self) -> Self {
        Self { owner: || peer::user() + 1, ..self }
    }

    fn bases(&self) -> Bases {
        Bases { candidates: vec![Candidate::new(self.home.path(), &["fathom-fabric-0"])], owner: self.owner }
    }

    fn base(&self) -> PathBuf {
        self.home.path().join("fathom-fabric-0")
    }

    fn fabric(&self, name: &str) -> FabricDir {
        FabricDir { base: self.bases().make().unwrap(), name: name.to_owned() }
    }

    /// What whoever comes first may prepare: a fabric "a" with a file of the given name and text.
    fn prepare(&self, file: &str, text: &str) {
        let dir = self.base().join("a");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir).unwrap();
        fs::write(dir.join(file), text).unwrap();
    }

    /// A file outside that nobody may touch.
    fn treasure(&self) -> PathBuf {
        let path = self.home.path().join("treasure");
        fs::write(&path, "untouched").unwrap();
        path
    }
}

fn state(netns: Option<&str>) -> FabricState {
    let host = HostRecord {
        name: "client".into(),
        addresses: vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
        mtu: 1_500,
        network: Some(4_026_531_840),
        netns: netns.map(str::to_owned),
    };
    FabricState { marker: "a/1".into(), pid: 7, scenario: "x.toml".into(), hosts: vec![host] }
}

#[test]
fn generated_names_pass_and_bad_names_fail() {
    for (text, name) in [("Azure region", "azure-region"), ("--x--", "x"), ("", "fabric"), ("α", "fabric")] {
        assert_eq!(name_from(text), name);
        check_name(name).unwrap();
    }
    check_name(&name_from(&"long ".repeat(50))).unwrap();
    for bad in ["", "-a", "A", "a/b", "a.b", "..", "a\0"] {
        assert!(check_name(bad).is_err(), "{bad:?}");
        assert!(Root::new().bases().find(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn lock_is_exclusive_and_leaves_no_file() {
    let root = Root::new();
    let fabric = root.fabric("a");
    let lock = fabric.lock().unwrap().unwrap();
    assert!(fabric.lock().unwrap().is_none());
    drop(lock);
    assert_eq!(fs::read_dir(root.base()).unwrap().count(), 0);
    assert!(fabric.lock().unwrap().is_some());
}

#[test]
fn state_is_read_back_and_removed_completely() {
    let root = Root::new();
    let fabric = root.fabric("a");
    assert_eq!(fabric.read_state().unwrap(), None);
    fabric.create().unwrap();
    assert_eq!(fabric.read_state().unwrap(), None);
    for netns in [None, Some("fathom-a-client")] {
        fabric.write_state(&state(netns)).unwrap();
        assert_eq!(fabric.read_state().unwrap(), Some(state(netns)));
    }
    assert_eq!(root.bases().names(), ["a"]);
    assert_eq!(fs::metadata(fabric.path()).unwrap().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(root.base()).unwrap().mode() & 0o777, 0o700);
    fabric.remove().unwrap();
    fabric.remove().unwrap();
    assert!(!fabric.exists().unwrap());
}

/// Root's `fabric down --all` took whatever stood in /tmp/fathom-fabric-0, which anybody may make first, for a fabric of
/// its own: `find` and `names` did not look at whose directory it was.
#[test]
fn directory_of_another_user_is_refused() {
    let root = Root::new();
    root.prepare("state.json", &serde_json::to_string(&state(Some("../../treasure"))).unwrap());
    let root = root.of_another();
    assert_eq!(root.bases().names(), Vec::<String>::new());
    let refusal = root.bases().find("a").unwrap_err().to_string();
    assert!(refusal.contains("belongs to user") && refusal.contains("fathom-fabric-0"), "{refusal}");
    assert!(root.bases().make().is_err());
    assert!(FabricDir::at(&root.base().join("a"), root.owner).is_err(), "named by its path");
}

#[test]
fn writable_or_symlinked_directory_is_refused() {
    let root = Root::new();
    root.prepare("state.json", "{}");
    let open = |mode| fs::set_permissions(root.base(), fs::Permissions::from_mode(mode)).unwrap();
    open(0o777);
    assert!(
        root.bases().find("a").is_err() && root.bases().names().is_empty() && root.bases().make().is_err()
    );
    open(0o700);
    assert_eq!(root.bases().names(), ["a"]);
    // A base that is a symlink to a directory of the same user's.
    fs::rename(root.base(), root.home.path().join("elsewhere")).unwrap();
    symlink(root.home.path().join("elsewhere"), root.base()).unwrap();
    assert!(
        root.bases().find("a").is_err() && root.bases().names().is_empty() && root.bases().make().is_err()
    );
    // And a fabric that is one.
    fs::remove_file(root.base()).unwrap();
    fs::rename(root.home.path().join("elsewhere"), root.base()).unwrap();
    symlink(root.base().join("a"), root.base().join("b")).unwrap();
    assert_eq!(root.bases().names(), ["a"]);
    assert!(root.bases().find("b").is_err());
}

/// `"netns":"../../…"` in a prepared state.json was joined to /run/netns, unmounted and deleted.
#[test]
fn state_naming_foreign_namespace_is_refused() {
    let root = Root::new();
    let treasure = root.treasure();
    let up = "../".repeat(12) + treasure.to_str().unwrap().trim_start_matches('/');
    for netns in [up.as_str(), "/etc/passwd", "fathom-a-../x", "fathom-b-client", "", "production"] {
        root.prepare("state.json", &serde_json::to_string(&state(Some(netns))).unwrap());
        let fabric = root.bases().find("a").unwrap();
        let refusal = fabric.read_state().unwrap_err().to_string();
        assert!(refusal.contains("nothing was touched"), "{refusal}");
        assert!(crate::processes::remove_remains(&fabric).is_err());
        assert!(root.base().join("a/state.json").exists());
    }
    // The name is the fabric's, but the host's is none.
    let mut sly = state(Some("fathom-a-../../x"));
    sly.hosts[0].name = "../../x".into();
    root.prepare("state.json", &serde_json::to_string(&sly).unwrap());
    assert!(root.bases().find("a").unwrap().read_state().is_err());
    assert_eq!(fs::read_to_string(treasure).unwrap(), "untouched");
}

/// The lock was opened by its path, through a symlink too, and created what that named.
#[test]
fn symlinked_files_are_not_followed() {
    let root = Root::new();
    let fabric = root.fabric("a");
    fabric.create().unwrap();
    let (treasure, nowhere) = (root.treasure(), root.home.path().join("nowhere"));
    for target in [&treasure, &nowhere] {
        let lock = root.base().join("a.lock");
        symlink(target, &lock).unwrap();
        let refusal = fabric.lock().unwrap_err().to_string();
        assert!(refusal.contains("remove what stands there"), "{refusal}");
        fs::remove_file(lock).unwrap();

        symlink(target, root.base().join("a/log")).unwrap();
        assert!(fabric.create_file("log").is_err());
        symlink(target, root.base().join("a/state.json")).unwrap();
        assert!(fabric.read_state().is_err());
        // Its own name is replaced, not what it leads to.
        symlink(target, root.base().join("a/state.json.tmp")).unwrap();
        fabric.write_state(&state(None)).unwrap();
        assert_eq!(fabric.read_state().unwrap(), Some(state(None)));
        fs::remove_file(root.base().join("a/log")).unwrap();
        fs::remove_file(root.base().join("a/state.json")).unwrap();
    }
    symlink(&treasure, root.base().join("a/hosts")).unwrap();
    fabric.remove().unwrap();
    assert_eq!(fs::read_to_string(treasure).unwrap(), "untouched");
    assert!(!nowhere.exists());
}

#[test]
fn fifo_as_state_file_does_not_block() {
    let root = Root::new();
    let fabric = root.fabric("a");
    fabric.create().unwrap();
    let made = std::process::Command::new("mkfifo").arg(fabric.file("state.json")).status().unwrap();
    assert!(made.success());
    assert!(fabric.read_state().is_err());
}
