WATCH 'https://e.example/' OF PAGE WITHOUT 'x';
WATCH 'https://e.example/2' WITHOUT ' ';
WATCH 'https://e.example/2' ON FAILURE AS "g" WITHOUT ' d';