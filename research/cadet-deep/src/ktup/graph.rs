//! A knowledge graph beside the items: triples (head, relation, tail), and which item is which entity.

use cadet::{Error, Result};

/// A knowledge graph whose entities and relations are numbered from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    triples: Vec<[u32; 3]>,
    entities: usize,
    relations: usize,
    entity_of_item: Vec<Option<u32>>,
}

impl Graph {
    /// Checks every number against `entities` and `relations`; a triple that stands twice is kept once.
    /// `entity_of_item` has a place for every item of the exposures, `None` for those not in the graph.
    pub fn new(
        mut triples: Vec<[u32; 3]>,
        entities: usize,
        relations: usize,
        entity_of_item: Vec<Option<u32>>,
    ) -> Result<Self> {
        if triples.is_empty() {
            return Err(Error::config("graph", "there is no triple in it"));
        }
        let check = |what, count: usize, largest: Option<u32>| match largest {
            Some(largest) if largest as usize >= count => {
                Err(Error::Shape { what, expected: count, found: largest as usize + 1 })
            }
            _ => Ok(()),
        };
        check("entities of triples", entities, triples.iter().map(|[h, _, t]| *h.max(t)).max())?;
        check("relations of triples", relations, triples.iter().map(|[_, r, _]| *r).max())?;
        check("entities of items", entities, entity_of_item.iter().copied().flatten().max())?;
        triples.sort_unstable();
        triples.dedup();
        Ok(Self { triples, entities, relations, entity_of_item })
    }

    /// The triples (head, relation, tail), ascending, each once.
    pub fn triples(&self) -> &[[u32; 3]] {
        &self.triples
    }

    /// How many entities there are.
    pub fn entities(&self) -> usize {
        self.entities
    }

    /// How many relations there are.
    pub fn relations(&self) -> usize {
        self.relations
    }

    /// The entity of each item.
    pub fn entity_of_item(&self) -> &[Option<u32>] {
        &self.entity_of_item
    }

    /// How many items have an entity.
    pub fn aligned(&self) -> usize {
        self.entity_of_item.iter().flatten().count()
    }

    /// Whether the graph says this.
    pub fn contains(&self, triple: [u32; 3]) -> bool {
        self.triples.binary_search(&triple).is_ok()
    }

    /// The same graph with only the triples for which `keep` holds.
    pub fn filter(&self, keep: impl Fn([u32; 3]) -> bool) -> Result<Self> {
        let triples = self.triples.iter().copied().filter(|t| keep(*t)).collect();
        Self::new(triples, self.entities, self.relations, self.entity_of_item.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_range_are_refused_and_repeats_dropped() {
        let graph = |triples: &[[u32; 3]], item| Graph::new(triples.to_vec(), 3, 2, vec![item, None]);
        let fine = graph(&[[2, 1, 0], [0, 0, 1], [2, 1, 0]], Some(2)).unwrap();
        assert_eq!(fine.triples(), [[0, 0, 1], [2, 1, 0]]);
        assert_eq!(fine.aligned(), 1);
        assert!(fine.contains([2, 1, 0]) && !fine.contains([0, 1, 2]));
        assert!(fine.filter(|_| false).is_err());
        for (wrong, item, why) in [
            (&[][..], None, "graph: there is no triple in it"),
            (&[[3, 0, 0]], None, "entities of triples: expected 3, found 4"),
            (&[[0, 0, 7]], None, "entities of triples: expected 3, found 8"),
            (&[[0, 2, 0]], None, "relations of triples: expected 2, found 3"),
            (&[[0, 0, 0]], Some(3), "entities of items: expected 3, found 4"),
        ] {
            assert_eq!(graph(wrong, item).unwrap_err().to_string(), why);
        }
    }
}
