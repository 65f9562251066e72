WATCH 'https://e.example/a' DIGEST WEEKLY AT '08:00';
WATCH 'https://e.example/b' DIGEST DAILY AT '8 am' TELL LOG 'x';
WATCH 'https://e.example/c' DIGEST NONE DIGEST EVERY 1 HOUR;
