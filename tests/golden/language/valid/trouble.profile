create profile "News" deliver to log 'all' on trouble tell mail 'me@example.org', log 'trouble' on trouble tell log 'more' digest every 1 hour;
watch 'https://example.org/feed' into "News" on trouble after 1 day;
