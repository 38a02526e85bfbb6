"""The voice and the acoustic model of the package: words where they are said, and subtitles of them."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rhapsode import TTS, Audio
from unit.command import rhapsode

TEXT = "It was the best of times, it was the worst of times. They say the fare is $12.50 a day."


@pytest.fixture(scope="module")
def tts() -> Iterator[TTS]:
    with TTS(limits={"max_concurrency": 1}, device="cpu") as opened:
        yield opened


@pytest.fixture(scope="module")
def spoken(tts: TTS) -> Audio:
    return tts.speak(TEXT, seed=1, word_timestamps=True)


def test_every_word_is_heard_once_and_in_order(spoken: Audio) -> None:
    assert [word.text for word in spoken.words] == re.findall(r"\$12\.50|\w+", TEXT)
    assert all(word.is_heard for word in spoken.words)
    assert all(before.end_s <= after.start_s for before, after in itertools.pairwise(spoken.words))
    assert spoken.words[-1].end_s <= spoken.duration_s


MARKDOWN = "# The *Light*house\n\nSee [the docs](http://x.y/z), it costs **$5**.\n\n- Tea\n- Milk\n"


def test_words_of_markdown_are_found_and_shown_without_marks(tmp_path: Path) -> None:
    (tmp_path / "talk.md").write_text(MARKDOWN)
    done = rhapsode("say", "-f", "talk.md", "--subtitles", "talk.srt", "--no-play", "-q", cwd=tmp_path, timeout_s=110)
    assert done.returncode == 0, done.stderr.decode()
    lines = [block.split("\n", 2)[2] for block in (tmp_path / "talk.srt").read_text().strip().split("\n\n")]
    assert lines == ["The Lighthouse", "See the docs, it costs $5.", "Tea", "Milk"]


def test_words_are_where_the_voice_is_loud(spoken: Audio) -> None:
    def loudness(start_s: float, end_s: float) -> float:
        rate = spoken.sample_rate
        return float(np.sqrt(np.square(spoken.samples[:, round(start_s * rate) : round(end_s * rate)]).mean()))

    sentence_end = next(word for word in spoken.words if TEXT[word.stop_char] == ".")
    following = spoken.words[spoken.words.index(sentence_end) + 1]
    assert following.start_s - sentence_end.end_s > 0.1  # the voice pauses between sentences
    pause = loudness(sentence_end.end_s + 0.04, following.start_s - 0.04)
    assert pause < 0.1 * min(loudness(word.start_s, word.end_s) for word in (sentence_end, following))


def test_times_follow_the_speed(tts: TTS, spoken: Audio) -> None:
    faster = tts.speak(TEXT, seed=1, word_timestamps=True, speed=2.0)
    for word, fast in zip(spoken.words, faster.words, strict=True):
        assert fast.start_s == pytest.approx(word.start_s / 2, abs=1e-6)


def test_the_end_of_good_speech_is_left_alone(tts: TTS, spoken: Audio) -> None:
    with tts.stream(TEXT, seed=1, end_detection=True) as stream:
        heard = np.concatenate([chunk.samples for chunk in stream], axis=1)
    assert stream.outcome.quality.reached_end
    assert heard.shape[1] / spoken.sample_rate >= spoken.words[-1].end_s
    assert np.allclose(heard[:, :-480], spoken.samples[:, : heard.shape[1] - 480], atol=1e-4)


@pytest.mark.slow
def test_the_command_writes_subtitles(tmp_path: Path) -> None:
    done = rhapsode("say", "--no-play", "--subtitles", "talk.srt", TEXT, cwd=tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    blocks = (tmp_path / "talk.srt").read_text().strip().split("\n\n")
    assert " ".join(line for block in blocks for line in block.splitlines()[2:]) == TEXT
    assert all(re.match(r"\d\d:\d\d:\d\d,\d{3} --> ", block.splitlines()[1]) for block in blocks)
