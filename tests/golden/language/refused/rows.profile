CREATE DOMAIN "D" AS
CLASS::A EACH JSON '$.x[*]' KEY id (id:String FROM JSON '$.id');
