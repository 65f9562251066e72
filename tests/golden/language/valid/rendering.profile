CREATE DOMAIN "Jobs" AS CLASS::JOB EACH CSS 'li.job' KEY link (title:String FROM CSS 'a', link:URL FROM CSS 'a');
create source "jobs" of JOB at 'https://example.org/jobs' wait for 'li.job a' fetch browser
  HEADER 'Cookie' SECRET ENV 'SECRET_COOKIE' AUTH BEARER SECRET ENV 'SECRET_TOKEN';
WATCH 'https://example.org/built' OF JOB FETCH BROWSER WAIT FOR 'li.job' TELL LOG 'built';
WATCH 'https://example.org/page' OF PAGE FETCH BROWSER TELL LOG 'page';
