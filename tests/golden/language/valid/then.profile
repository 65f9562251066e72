create domain "D" as class::A(channel.item.title:String) class::B each css 'tr' key id (id:String from css 'td', n:Integer from css 'b');
create source a of A at 'https://a.example/'; create source b of B at 'https://b.example/';
create profile "P" as (domain "D");
insert notification "followed" into "P" set query "select title, n from A, B" set trigger "on insert to A where title like 'x%' then update to B where id = first.title and new.n > old.n within 90 minutes";
insert notification "alone" into "P" set query "select title from A" set trigger "on insert to A then no insert to A where title = 'resolved' within 2 hours";
