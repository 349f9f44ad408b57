"""Incremental text of one output: half characters wait, text that may begin a stop string is held back."""

from collections.abc import Sequence

from tokenizers.decoders import DecodeStream

from dpd_simulator.sampling import SamplingParameters
from dpd_simulator.tokenizer import Vocabulary


class Detokenizer:
    """Text state of one sequence, with vLLM's rules.

    The decoding stream is primed with the prompt, as in vLLM. A prompt that ends inside a character leaves the stream
    without a prefix, and the first text that comes out then begins with the text of the whole prompt.
    """

    __slots__ = ("_count", "_held_characters", "_parameters", "_sent", "_stream", "_vocabulary", "text")

    def __init__(
        self, *, vocabulary: Vocabulary, parameters: SamplingParameters, prompt_ids: Sequence[int]
    ) -> None:
        self._vocabulary = vocabulary
        self._parameters = parameters
        self._stream = DecodeStream(ids=list(prompt_ids), skip_special_tokens=parameters.skip_special_tokens)
        longest = max((len(stop) for stop in parameters.stop), default=1)
        self._held_characters = 0 if parameters.include_stop_str_in_output else longest - 1
        self._count = 0
        self._sent = 0
        self.text = ""

    def append(self, token_id: int, *, ends_output: bool) -> str | None:
        """Add one output token.

        Args:
            token_id: the token.
            ends_output: it is an end-of-sequence or stop token, which has no text of its own.

        Returns:
            The stop string that is now complete, or None; the text is then cut at it.
        """
        parameters = self._parameters
        self._count += 1
        before = len(self.text)
        if not ends_output or parameters.include_stop_str_in_output:
            self.text += self._stream.step(self._vocabulary.tokenizer, token_id) or ""
        if self._count <= parameters.min_tokens:
            return None
        return self._find_stop(new_characters=len(self.text) - before)

    def _find_stop(self, *, new_characters: int) -> str | None:
        if not new_characters:
            return None
        for stop in self._parameters.stop:
            first = max(0, len(self.text) - new_characters - len(stop) + 1)
            found = self.text.find(stop, first)
            if found >= 0:
                end = found + len(stop) if self._parameters.include_stop_str_in_output else found
                self.text = self.text[:end]
                return stop
        return None

    def take(self, *, finished: bool) -> str:
        """Text that may be shown now and was not taken before."""
        end = len(self.text) if finished else len(self.text) - self._held_characters
        if end <= self._sent:
            return ""
        delta = self.text[self._sent : end]
        self._sent = end
        return delta
