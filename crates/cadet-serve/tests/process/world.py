"""A small world for the browser: users with tastes, items with titles, shows and repeats over two months."""

import random
import time

USERS, DAYS = 1_200, 60
KINDS = {
    "running": "shoes jacket watch belt socks cap gloves bottle vest tights",
    "camping": "tent stove lantern mat rope mug knife hammock cooler boots",
    "kitchen": "pan scale grinder board kettle timer blender whisk wok oven",
    "music": "speaker headphones turntable strings pick amplifier cable stand drum keyboard",
    "garden": "spade hose shears seeds pots rake trellis mower bench gloves",
}


def items():
    """Ids and titles."""
    named = [(kind, f"{kind.capitalize()} {noun}") for kind, nouns in KINDS.items() for noun in nouns.split()]
    return [(f"sku-{100 + i}", title, kind) for i, (kind, title) in enumerate(named)]


def write(log, titles):
    """Writes a log and the titles of its items."""
    rng = random.Random(11)
    all_items = items()
    kinds = list(KINDS)
    popular = {item: 0.3 + 1.7 * rng.random() ** 2 for item, _, _ in all_items}
    now, rows = int(time.time()), []
    for user in range(USERS):
        taste = {kind: 0.1 for kind in kinds}
        for kind in rng.sample(kinds, rng.choice([1, 1, 2])):
            taste[kind] = 3.5
        active = 0.4 + 1.2 * rng.random()
        for item, _, kind in all_items:
            if rng.random() < 1 - 2.718 ** (-0.55 * active * popular[item] * taste[kind]):
                at = now - 7200 - int(rng.random() * DAYS * 86400)
                rows.append((f"u{1000 + user}", item, at))
                while rng.random() < 0.18 + 0.12 * popular[item] and at < now - 90000:
                    at += int(rng.expovariate(1 / (5 * 86400)))
                    if at < now - 7200:
                        rows.append((f"u{1000 + user}", item, at))
    rows.sort(key=lambda row: row[2])
    with open(log, "w", encoding="utf-8") as out:
        out.write("user_id,item_id,timestamp\n")
        out.writelines(f"{user},{item},{at}\n" for user, item, at in rows)
    with open(titles, "w", encoding="utf-8") as out:
        out.write("item_id,title\n")
        out.writelines(f"{item},{title}\n" for item, title, _ in all_items)
    return len(rows)
