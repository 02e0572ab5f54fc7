use super::*;

fn watch() -> Arc<Watch> {
    Arc::new(Watch {
        sql: String::new(),
        of: None,
        is_anothers: false,
        read: |_| Err(Error::run("")),
        unlisted: String::new(),
        gone: String::new(),
        waits: None,
        grant: None,
    })
}

fn shared(places: &[(u64, u64)]) -> Shared {
    let watch = watch();
    let place = |&(running, next_ns): &(u64, u64)| Place {
        watch: Mutex::new(Arc::clone(&watch)),
        running: running.into(),
        next_ns: next_ns.into(),
        under_way: 0.into(),
        has_told: false.into(),
        is_listed: false.into(),
        failed: Mutex::default(),
        has_worked: false.into(),
    };
    Shared {
        places: places.iter().map(place).collect(),
        wakes_ns: 0.into(),
        free_ns: 0.into(),
        leaves: false.into(),
        failed: OnceLock::new(),
        thread: OnceLock::new(),
        reopened: 0.into(),
        afters: Afters::new(places.len(), true),
    }
}

/// The session that waits longest is next, in any place; and observations leave the server its time.
#[test]
fn longest_waiting_session_is_observed_first() {
    let now = 100 * MS;
    let next = |places: &[(u64, u64)], free_ns| {
        let next = shared(places).next(now, free_ns, &mut vec![0; places.len()]);
        (next.look.map(|(at, _)| at), next.wake_ns)
    };
    assert_eq!(next(&[(0, 0), (0, 0)], 0), (None, SOUNDLY), "nothing runs");
    assert_eq!(next(&[(99 * MS, 0)], 0), (None, 102 * MS), "it has just begun");
    assert_eq!(next(&[(50 * MS, 0), (40 * MS, 0), (45 * MS, 0)], 0), (Some(1), 43 * MS));
    assert_eq!(next(&[(50 * MS, 99 * MS), (40 * MS, 98 * MS), (45 * MS, 300 * MS)], 0), (Some(1), 98 * MS));
    assert_eq!(next(&[(50 * MS, 0)], 101 * MS), (None, 101 * MS), "it has just looked");
}

/// A session that is not seen any more is left alone, and the others are not; a new one in its place is looked at.
#[test]
fn failed_session_leaves_others_watched() {
    let shared = Arc::new(shared(&[(1, 0), (2, 0)]));
    let look = || shared.next(100 * MS, 0, &mut [0, 0]).look.map(|(at, _)| at);
    assert_eq!(look(), Some(0));
    *lock(&shared.places[0].failed) = Some(Error::run("gone"));
    assert_eq!(look(), Some(1));
    let of = |at| Looks { seen: Mutex::new(channel().1), shared: Arc::clone(&shared), at };
    assert!(of(0).failure().is_some() && of(1).failure().is_none());
    of(0).watch(&watch());
    assert!(of(0).failure().is_none());
    assert_eq!(look(), Some(0));
}

/// Behind a pooler the session that is seen may be another than the one that serves: its end was told as that of the query's session.
#[test]
fn gone_session_counts_only_when_seen_working() {
    let shared = Arc::new(shared(&[(7, 0)]));
    let looks = Looks { seen: Mutex::new(channel().1), shared: Arc::clone(&shared), at: 0 };
    let place = &shared.places[0];
    *lock(&place.failed) = Some(Error::Gone("it is gone".to_owned()));
    assert_eq!(looks.gone(), None, "nobody saw it work");
    for (state, began_ns) in [(ServerState::Before, 7), (ServerState::Untaken, 7), (ServerState::Working, 6)]
    {
        place.worked(state, began_ns);
        assert_eq!(looks.gone(), None, "{state:?} {began_ns}");
    }
    for state in [ServerState::Working, ServerState::Sending] {
        place.worked(state, 7);
        assert_eq!(looks.gone().as_deref(), Some("it is gone"), "{state:?}");
        // Another query begins on the same session.
        let watch = Arc::clone(&lock(&place.watch));
        looks.watch(&watch);
        assert_eq!(looks.gone(), None);
    }
    // That nobody may look is no end of it.
    place.worked(ServerState::Working, 7);
    *lock(&place.failed) = Some(Error::run("no grant"));
    assert_eq!(looks.gone(), None);
}
