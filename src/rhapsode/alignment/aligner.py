"""Aligns the speech of all requests that ask for it, in a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from rhapsode.alignment.model import Acoustic
from rhapsode.alignment.text import WordText
from rhapsode.alignment.track import TrackListener, WordTrack
from rhapsode.errors import GenerationFailed, Unavailable
from rhapsode.text.front_end import TextSettings

log = logging.getLogger("rhapsode.alignment")


class Aligner:
    """Serves many requests at once: their audio goes through the acoustic model in one batch.

    The model is loaded and the thread is started when a request first needs them.
    """

    def __init__(self, load: Callable[[], Acoustic]) -> None:
        self._load = load
        self._model: Acoustic | None = None
        self._loading = threading.Lock()
        self._changed = threading.Condition()
        self._due: dict[WordTrack, None] = {}
        self._thread: threading.Thread | None = None
        self._stopped = False

    @property
    def is_loaded(self) -> bool:
        """Whether `text` and `open` return at once."""
        return self._model is not None

    def load(self) -> None:
        """Loads the acoustic model, if it is not loaded yet."""
        self._loaded()

    def text(self, settings: TextSettings) -> WordText:
        """Returns an empty text for a request; raises if the acoustic model does not know its language."""
        model = self._loaded()
        return WordText(settings, model.symbols, model.language)

    def open(self, text: WordText, sample_rate: int, listener: TrackListener, ends: bool) -> WordTrack:
        """Begins the alignment of one request."""
        return WordTrack(self._loaded(), text, sample_rate, listener, ends, self._wake)

    def stop(self) -> None:
        """Stops the thread; listeners of running alignments get no more callbacks."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _loaded(self) -> Acoustic:
        with self._loading:
            if self._stopped:
                raise Unavailable("the engine was stopped.")
            if self._model is None:
                self._model = self._load()
                self._thread = threading.Thread(target=self._run, args=(self._model,), name="aligner", daemon=True)
                self._thread.start()
            return self._model

    def _wake(self, track: WordTrack) -> None:
        with self._changed:
            self._due[track] = None
            self._changed.notify()

    def _run(self, model: Acoustic) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._due or self._stopped)
                if self._stopped:
                    return
                tracks, self._due = list(self._due), {}
            tracks = [track for track in tracks if not track.dropped]
            try:
                self._align(model, tracks)
            except Exception as error:
                log.exception("an alignment failed")
                for track in tracks:
                    _fail(track, error)

    @staticmethod
    def _align(model: Acoustic, tracks: list[WordTrack]) -> None:
        """Aligns the pending audio of all tracks in one batch."""
        taken = [(track, *track.take()) for track in tracks]
        frames = model.feed_many([(track.stream, samples) for track, samples, _ in taken])
        for (track, _, is_last), log_probs in zip(taken, frames, strict=True):
            try:
                track.advance(log_probs)
                if is_last and not track.dropped:
                    track.advance(track.stream.finish())
                    track.end()
                    track.dropped = True
            except Exception as error:  # an error of one request does not end the others
                log.exception("an alignment failed")
                _fail(track, error)


def _fail(track: WordTrack, error: Exception) -> None:
    if not track.dropped:
        track.dropped = True
        track.listener.misaligned(GenerationFailed(f"the words could not be aligned ({type(error).__name__})."))
