"""A model: what it is, where it is kept, and what comes after training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from . import _cadet
from ._answers import Added, Evaluation, Verdict, framed
from ._frames import Frame, back, library, source
from ._progress import Watcher, shown
from ._questions import Path_, Questions, called

#: The files of a model folder.
_FILES = (
    "manifest.json", "weights.safetensors", "users.safetensors", "items.safetensors", "exposures.safetensors",
    "SHA256SUMS",
)  # fmt: skip


class Model(Questions):
    """A trained model, which never changes.

    :func:`fit` and :func:`load` make it. Questions about pairs and lists are answered in frames of the library that
    the question came in, others in frames of the library that the model was fitted from; a model that was loaded, or
    fitted from files, answers in :class:`cadet.Table`, which ``polars.DataFrame``, ``pyarrow.table`` and every other
    reader of ``__arrow_c_stream__`` takes.

    Where users beside the model's own are asked about, give their features as `users`, or, where the model learns
    features from exposures, what they saw as `exposures`.
    """

    def __init__(self, inner: _cadet.Model, kind: str) -> None:
        self._inner = inner
        self._kind = kind
        self._manifest: dict[str, Any] | None = None
        #: What was added by :meth:`add`, in the model that it returns.
        self.added: Added | None = None

    # --- what it is

    @property
    def manifest(self) -> dict[str, Any]:
        """Everything that is recorded of the model: settings, data, history, measures."""
        if self._manifest is None:
            self._manifest = json.loads(self._inner.manifest())
        return self._manifest

    @property
    def verdict(self) -> Verdict:
        """Whether the model can be trusted, and why."""
        found = self.manifest["verdict"] or {"colour": "red", "reasons": ["It was never judged."]}
        return Verdict(found["colour"], tuple(found["reasons"]))

    @property
    def metrics(self) -> dict[str, Any] | None:
        """What was measured on held-out users; ``None`` where nobody was held out."""
        found: dict[str, Any] | None = self.manifest["metrics"]
        return found

    @property
    def has_signal(self) -> bool:
        """Whether the model found anything in its log: otherwise every familiarity is 0."""
        return self._inner.has_signal

    @property
    def users(self) -> Any:
        """The ids of the users, as a frame."""
        return back(self._inner.users(), self._kind)

    @property
    def items(self) -> Any:
        """The ids of the items, and their titles where there are any, as a frame."""
        return back(self._inner.items(), self._kind)

    def __repr__(self) -> str:
        data = self.manifest["data"]
        return f"<cadet.Model: {self.verdict.colour}, {data['users']:,} users, {data['items']:,} items>"

    def _repr_html_(self) -> str:
        return framed(_cadet.in_brief(self._inner), 700)

    def report(self, path: Path_ | None = None) -> str:
        """The report of ``cadet train --report``: one page with plots.

        Parameters
        ----------
        path
            A file to write it to.

        Returns
        -------
        str
            The page.
        """
        page = _cadet.report(self._inner)
        if path is not None:
            Path(path).write_text(page, encoding="utf-8")
        return page

    # --- where it is kept

    def save(self, folder: Path_, *, keep_previous: bool = False) -> None:
        """Writes a model folder, in one step: at every moment the old model or the new one is there.

        Parameters
        ----------
        folder
            Where to; a model that is there is replaced, anything else is not.
        keep_previous
            Whether the model that is replaced stays, as ``<folder>.previous``.
        """
        _cadet.save(self._inner, folder, keep_previous)

    def to_bytes(self) -> bytes:
        """The model folder as the bytes of a zip file, which :meth:`from_bytes` reads."""
        import io
        import tempfile
        import zipfile

        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "model"
            self.save(folder)
            packed = io.BytesIO()
            with zipfile.ZipFile(packed, "w") as files:
                for file in sorted(folder.iterdir()):
                    # A fixed date, so that the same model gives the same bytes.
                    files.writestr(zipfile.ZipInfo(file.name), file.read_bytes())
        return packed.getvalue()

    @classmethod
    def from_bytes(cls, packed: bytes) -> Model:
        """The model of :meth:`to_bytes`; nothing in the bytes is run."""
        return _unpickled(packed, "arrow", None)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.to_bytes(), self._kind, self.added)

    # --- what comes after training

    def add(
        self,
        exposures: Frame = None,
        *,
        users: Frame = None,
        items: Frame = None,
        fine_tune: int | None = None,
        user_col: str | None = None,
        item_col: str | None = None,
        weight_col: str | None = None,
        timestamp_col: str | None = None,
        event_col: str | None = None,
        skip_bad: bool = False,
        progress: bool | Watcher | None = None,
    ) -> Model:
        """The model with what came after training, without training again: the command ``cadet items add``.

        Parameters
        ----------
        exposures
            Exposures of new items, or of any.
        users
            Features of users that the model has never seen: all of them join it.
        items
            Items that join it, exposed or not, and their titles.
        fine_tune
            Refines the embeddings of added items by up to so many passes over their exposures.
        user_col, item_col, weight_col, timestamp_col, event_col, skip_bad, progress
            As in :func:`cadet.fit`; names by themselves as in training.

        Returns
        -------
        Model
            A new one, whose `added` says what came; this one stays as it is.
        """
        if exposures is None and users is None and items is None:
            raise ValueError("exposures: give exposures, users or items")
        coming = {
            "exposures": source(exposures, "exposures"),
            "users": source(users, "users"),
            "items": source(items, "items"),
            "fine_tune": fine_tune,
            "columns": called(user_col, item_col, weight_col, timestamp_col, event_col),
            "skip_bad": skip_bad,
        }
        with shown(progress) as watcher:
            inner, said = _cadet.add(self._inner, coming, watcher)
        model = Model(inner, self._kind)
        model.added = Added(json.loads(said))
        return model

    def evaluate(
        self,
        exposures: Frame,
        *,
        users: Frame = None,
        seed: int | None = None,
        user_col: str | None = None,
        item_col: str | None = None,
        weight_col: str | None = None,
        timestamp_col: str | None = None,
        event_col: str | None = None,
        skip_bad: bool = False,
    ) -> Evaluation:
        """How good is the model on users it was never trained on: the command ``cadet eval``.

        Parameters
        ----------
        exposures
            What to measure on; only users that the model was not trained on count.
        users
            Features of users that the model has never seen.
        seed
            Seeds what is drawn; by itself as in training.
        user_col, item_col, weight_col, timestamp_col, event_col, skip_bad
            As in :func:`cadet.fit`; names by themselves as in training.
        """
        names = called(user_col, item_col, weight_col, timestamp_col, event_col)
        data, others = source(exposures, "exposures"), source(users, "users")
        said, table = _cadet.evaluate(self._inner, data, others, names, skip_bad, seed)
        found = Evaluation(json.loads(said))
        found.by_item = back(table, library(exposures))
        return found


def load(folder: Path_) -> Model:
    """Reads a model folder that ``cadet train`` or :meth:`Model.save` left.

    Raises
    ------
    FileNotFoundError
        If there is none.
    cadet.Error
        If it is damaged, foreign, or of a newer version.

    Examples
    --------
    >>> import cadet, tempfile
    >>> folder = tempfile.mkdtemp() + "/model"
    >>> cadet.fit(cadet.demo_log(), epochs=3).save(folder)
    >>> cadet.load(folder).has_signal
    True
    """
    return Model(_cadet.load(folder), "arrow")


def _unpickled(packed: bytes, kind: str, added: Added | None) -> Model:
    import io
    import tempfile
    import zipfile

    with tempfile.TemporaryDirectory() as place:
        with zipfile.ZipFile(io.BytesIO(packed)) as files:
            for name in files.namelist():
                if name not in _FILES:
                    raise ValueError(f"packed: {name!r} is no file of a model")
                (Path(place) / name).write_bytes(files.read(name))
        model = Model(_cadet.load(place), kind)
    model.added = added
    return model
