# SPDX-License-Identifier: Apache-2.0
"""What those who run a recipe of docs/ ask: tokens, and who was refused. For a recipe_case.RecipeCase."""
import re
import time

import recipe_case
from ports import free_port

TOKEN = '0123456789abcdef' * 2


class Tokens:
    """weir asks for a token, and the recipe shows one as its page says. A subclass names the page's yaml block (`auth`)."""
    auth = 1

    def weir_config(self):
        (self.folder / 'weir.token').write_text(TOKEN + '\n', encoding='utf-8')
        auth = re.sub(r'\b\w+\.token\b', str(self.folder / 'weir.token'), recipe_case.blocks('nginx.md', 'yaml')[self.auth])
        return super().weir_config() + auth

    def test_it_asks_and_gives_back(self):
        recipe_case.Questions.test_what_is_used_up_is_refused(self)
        recipe_case.Questions.test_permits_come_back(self)

    def test_a_token_of_the_client_is_none_of_the_recipe(self):
        for i in range(12):  # more than an address may guess
            for fields in ({'Authorization': f'Bearer {i:032}'}, {'X-Weir-Token': f'{i:032}'}):
                self.assertEqual(self.get('/elsewhere', {**self.honest, **fields})[0], 200)


class WrongToken(Tokens):
    """The recipe shows another token than weir's."""
    test_it_asks_and_gives_back = test_a_token_of_the_client_is_none_of_the_recipe = None
    refusal = 500

    def weir_config(self):
        text = super().weir_config()
        (self.folder / 'weir.token').write_text('0' * 32 + '\n', encoding='utf-8')
        return text

    def test_nothing_passes(self):
        self.assertEqual(self.get('/api/x', self.honest)[0], self.refusal)
        self.assertEqual(self.passed(), 0)


class Refused:
    """What the page says of a log of the refused. A subclass gives its lines (`refused`) as (the client's status, weir's or
    None, the user, the path, all of the line)."""
    closed, gone = 503, (502, 503)  # the client's status where weir says 503, and where weir is not there
    missing = 'user'

    def weir_config(self):
        listen = re.match(r'listen:\n.*\n', super().weir_config())[0]
        return listen + f'''engine: {{ redis: {{ servers: ["127.0.0.1:{free_port()}"] }} }}
unmatched: refuse
limits:
  - {{ name: open, match: {{ route: /open/* }}, key: [ip], rate: 9/hour, on_failure: open }}
  - {{ name: local, match: {{ route: /local/* }}, key: [{self.missing}], missing: refuse, rate: 9/hour }}
  - {{ name: closed, match: {{ route: /closed/* }}, key: [ip], rate: 9/hour, on_failure: closed }}
'''

    def test_who_was_refused_is_in_the_log_and_nobody_else(self):
        self.assertEqual(self.get('/open/x', self.honest)[0], 200)
        status, head, _ = self.get('/local/x')
        self.assertEqual((status, head['Weir-Missing']), (403, f'"{self.missing}"'))
        self.assertEqual(self.get('/elsewhere', self.honest)[0], 403)
        self.assertEqual(self.get('/local/y', self.honest)[0], 429)
        self.assertEqual(self.get('/closed/x', self.honest)[0], self.closed)
        self.weir.process.terminate()
        self.weir.process.wait(20)
        gone = self.get('/closed/y', self.honest)[0]
        self.assertIn(gone, self.gone)
        want = [(403, 403, '', '/local/x'), (403, 403, 'ada', '/elsewhere'), (429, 429, 'ada', '/local/y'),
                (self.closed, 503, 'ada', '/closed/x'), (gone, None, 'ada', '/closed/y')]
        deadline = time.monotonic() + recipe_case.AWAIT_S
        while len(lines := self.refused()) < len(want):
            self.assertLess(time.monotonic(), deadline, lines)
            time.sleep(0.05)
        lines.sort(key=lambda line: [path for *_, path in want].index(line[3]))  # two at once may change places
        for (status, said, *who, line), expected in zip(lines, want, strict=True):
            self.assertEqual((status, *who), (expected[0], *expected[2:]), line)
            if expected[1] is not None:
                self.assertEqual(said, expected[1], line)
        for line, words in zip(lines, ((self.missing,), (), ('local', 'r=0'), (), ())):
            for word in words:
                self.assertIn(word, line[-1])
