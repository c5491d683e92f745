//! Reranking with a trained model: the same scores as everywhere else, exact counts, strangers left where
//! they were.

mod worlds;

use cadet::ask::Ask;
use cadet::ask::rerank::{By, Method, Request, RerankConfig, list_key};
use cadet::{IdRef, TaskId};

fn request<'a>(user: u32, tasks: &'a [Option<TaskId>], relevance: &'a [f64]) -> Request<'a> {
    let key = list_key(IdRef::Int(i64::from(user)), None);
    Request { user: Some(user), tasks, relevance, key }
}

#[test]
fn lists_are_scored_as_everything_is_and_get_fresher_with_lambda() {
    let world = worlds::tiny_world(5);
    let settings = worlds::tiny_settings();
    let model = worlds::fit(worlds::log_of(&world), &settings).unwrap();
    let users: Vec<u32> = (0..300).collect();
    let expected = worlds::familiarity(&model, &users);
    let tasks: Vec<Option<TaskId>> = (0..30).map(|t| Some(TaskId(t))).collect();
    // A relevance that likes what is familiar, as those of recommenders do.
    let relevance: Vec<Vec<f64>> =
        users.iter().map(|u| expected.iter().map(|row| f64::from(row[*u as usize])).collect()).collect();
    let requests: Vec<Request<'_>> =
        users.iter().map(|u| request(*u, &tasks, &relevance[*u as usize])).collect();
    let ask = Ask::new(&model);
    let mut before = f64::INFINITY;
    for lambda in [0.0, 0.4, 0.6, 1.0] {
        let config = RerankConfig { lambda, top: Some(5), ..RerankConfig::default() };
        let lists = ask.rerank_all(&requests, &config).unwrap();
        for (u, list) in lists.iter().enumerate() {
            for (t, candidate) in list.candidates.iter().enumerate() {
                // Bit by bit what scoring says, and what the log says.
                assert_eq!(candidate.familiarity, Some(expected[t][u]));
                let audience = world.exposures.audience(TaskId(t as u32));
                let seen = (audience.times_seen(u as u32), audience.last_seen(u as u32));
                assert_eq!((candidate.times_seen, candidate.last_seen), seen);
            }
            // By ids, one list at a time, the same list comes out.
            let by_id: Vec<(IdRef<'_>, f64)> =
                (0..30).map(|t| (IdRef::Int(t), relevance[u][t as usize])).collect();
            assert_eq!(&ask.rerank(IdRef::Int(u as i64), &by_id, &config).unwrap(), list);
        }
        let shown =
            lists.iter().flat_map(|l| l.places.iter().map(|p| l.candidates[p.index].familiarity.unwrap()));
        let mean = shown.map(f64::from).sum::<f64>() / 1500.0;
        assert!(mean <= before, "{lambda} {mean} {before}");
        before = mean;
    }
}

#[test]
fn counts_that_are_newer_than_the_model_decide_who_is_capped() {
    let world = worlds::tiny_world(6);
    let model = worlds::fit(worlds::log_of(&world), &worlds::tiny_settings()).unwrap();
    let ask = Ask::new(&model);
    let tasks: Vec<Option<TaskId>> = (0..4).map(|t| Some(TaskId(t))).collect();
    let request = request(9, &tasks, &[4.0, 3.0, 2.0, 1.0]);
    let config = RerankConfig { lambda: 0.0, max_seen: Some(1_000), ..RerankConfig::default() };
    let mut work = ask.rerank_workspace();
    let order = |list: &cadet::ask::rerank::Reranked| list.places.iter().map(|p| p.index).collect::<Vec<_>>();
    assert_eq!(order(&ask.rerank_in(&mut work, &request, &config).unwrap()), [0, 1, 2, 3]);
    let newer = ask.rerank_with(&mut work, &request, &config, |list| list[1].times_seen = 1_000).unwrap();
    assert_eq!(order(&newer), [0, 2, 3, 1]);
    assert_eq!((newer.candidates[1].times_seen, newer.places[3].by), (1_000, By::Cap));
}

#[test]
fn the_cap_and_strangers_on_a_real_model() {
    let world = worlds::tiny_world(6);
    let model = worlds::fit(worlds::log_of(&world), &worlds::tiny_settings()).unwrap();
    let ask = Ask::new(&model);
    let tasks = [Some(TaskId(0)), None, Some(TaskId(2)), None];
    let relevance = [1.0, 2.0, 3.0, 4.0];
    let who = world.exposures.audience(TaskId(0)).instances[0];
    for method in [Method::Fresh, Method::Mmr] {
        let config = RerankConfig { method, max_seen: Some(1), ..RerankConfig::default() };
        let lists = ask.rerank_all(&[request(who, &tasks, &relevance)], &config).unwrap();
        let last = lists[0].places.last().unwrap();
        let capped = lists[0].candidates.iter().filter(|c| c.times_seen > 0).count();
        assert!(capped >= 1 && last.by == By::Cap, "{lists:?}");
        assert_eq!(lists[0].candidates[1].familiarity, None);
        // Nothing is known of this user: relevance decides.
        let nobody = Request { user: None, ..request(0, &tasks, &relevance) };
        let by_relevance = RerankConfig { lambda: 0.9, ..RerankConfig::default() };
        let lists = ask.rerank_all(&[nobody], &by_relevance).unwrap();
        assert_eq!(lists[0].places.iter().map(|p| p.index).collect::<Vec<_>>(), [3, 2, 1, 0]);
        let broken = Request { relevance: &[1.0, f64::NAN, 0.0, 0.0], ..nobody };
        let error = ask.rerank_all(&[broken], &config).unwrap_err().to_string();
        assert!(error.contains("relevance: must be a finite number, found NaN"), "{error}");
    }
}
