//! The page and its charts over HTTP: who gets them, how long browsers keep them, and that they are drawn.

mod world;

use cadet_serve::config::{Config, KeySource};
use cadet_serve::dashboard::assets::Assets;

#[test]
fn files_are_kept_for_ever_and_the_page_is_not() {
    let world = world::start();
    let page = world.get("/");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert_eq!(page.header("cache-control"), Some("no-cache"));
    assert!(
        page.header("content-security-policy").unwrap().starts_with("default-src 'none'; script-src 'self'")
    );
    let tag = page.header("etag").unwrap().to_owned();
    assert_eq!(world.send("GET", "/", &[("if-none-match", &tag)], b"").status, 304);

    let assets = Assets::get();
    for file in &assets.files {
        let path = format!("/assets/{}/{}", assets.set, file.name);
        let plain = world.get(&path);
        assert_eq!((plain.status, plain.body.as_slice()), (200, &file.plain[..]), "{path}");
        assert_eq!(plain.header("cache-control"), Some("public, max-age=31536000, immutable"));
        let packed = world.send("GET", &path, &[("accept-encoding", "br, gzip;q=0.5")], b"");
        assert_eq!(packed.header("content-encoding"), Some("gzip"), "{path}");
        assert!(packed.body.len() < plain.body.len() && packed.body == file.gzip[..], "{path}");
        assert_eq!(
            world.send("GET", &path, &[("accept-encoding", "gzip;q=0")], b"").header("content-encoding"),
            None
        );
    }
    for path in
        ["/assets/000000000000/app.css", "/assets/x", &format!("/assets/{}/../Cargo.toml", assets.set)]
    {
        assert_eq!(world.get(path).status, 404, "{path}");
    }
}

#[test]
fn charts_are_drawn_without_styles_of_their_own() {
    let world = world::start();
    let version = world.service.serving().unwrap().version.clone();
    let of_model = |chart: &str| format!("/dashboard/svg/models/{version}/{chart}?w=400");
    let charts = ["calibration", "history", "future"].map(of_model);
    for path in ["/dashboard/svg/items?w=900", "/dashboard/svg/hubs"]
        .into_iter()
        .chain(charts.iter().map(|c| c.as_str()))
    {
        let chart = world.get(path);
        assert_eq!((chart.status, chart.header("content-type")), (200, Some("image/svg+xml")), "{path}");
        let text = chart.text();
        assert!(text.starts_with("<svg ") && !text.contains("<style") && !text.contains(" style="), "{path}");
    }
    assert_eq!(world.get("/dashboard/svg/items").text().matches("data-id=").count(), 20);
    assert_eq!(world.get(&of_model("tea")).code(), "not_found");
    assert_eq!(world.get("/dashboard/svg/models/none/history").code(), "unknown_model");
    let same = world.get(&format!("/dashboard/svg/compare?a={version}&b={version}")).text();
    assert!(same.contains("r = 1.000"), "{same:.300}");
    for other in ["none", "..", "%2e%2e%2fstate", ""] {
        let answer = world.get(&format!("/dashboard/svg/compare?a={version}&b={other}"));
        assert_eq!(answer.code(), "unknown_model", "{other}");
    }
}

#[test]
fn who_has_no_key_gets_the_page_and_no_figure() {
    let (keys, file) = world::keys();
    let config = Config { keys: Some(KeySource::Text(file)), ..Config::default() };
    let world = world::start_with(config, true);
    assert_eq!(world.get("/").status, 200);
    assert_eq!(world.get(&format!("/assets/{}/app.css", Assets::get().set)).status, 200);
    assert_eq!(world.get("/dashboard/svg/items").status, 401);
    let with = |key: &str| {
        let key = format!("Bearer {key}");
        world.send("GET", "/dashboard/svg/items", &[("authorization", &key)], b"").status
    };
    assert_eq!((with(&keys.read), with(&keys.ingest), with(&keys.admin)), (200, 403, 200));
}

#[test]
fn it_can_be_left_out() {
    let world = world::start_with(Config { dashboard: false, ..Config::default() }, true);
    assert_eq!((world.get("/").status, world.get("/dashboard/svg/items").status), (404, 404));
    assert_eq!(world.get("/v1/status").status, 200);
}
