WATCH 'https://blog.example/page' OF PAGE FULL ARTICLES TELL LOG 'page';
WATCH 'https://blog.example/feed' FULL TELL LOG 'feed';
